//! Archives made to harm, written while they are read: none of them is ever whole in memory or on the disk.

use crate::support::archive::{self, Tar, sha256};
use crate::support::{Random, busybox_archive};
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

/// Writes an archive.
pub type Feed = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

type Out<'a> = &'a mut dyn Write;

pub fn bytes(bytes: Vec<u8>) -> Feed {
    Box::new(move |out| out.write_all(&bytes))
}

/// The fields of a header that the archives here vary.
struct Header<'a> {
    kind: u8,
    name: &'a [u8],
    link: &'a [u8],
    mode: u32,
    time: u64,
    size: u64,
}

fn header(out: Out<'_>, fields: Header) -> io::Result<()> {
    let mut header = [0u8; 512];
    let Header { kind, name, link, mode, time, size } = fields;
    let (name, link) = (&name[..name.len().min(100)], &link[..link.len().min(100)]);
    header[..name.len()].copy_from_slice(name);
    header[100..108].copy_from_slice(format!("{mode:07o}\0").as_bytes());
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    // Beyond eleven octal digits in the other form.
    match format!("{size:011o}\0").as_bytes() {
        octal if octal.len() == 12 => header[124..136].copy_from_slice(octal),
        _ => {
            header[124] = 0x80;
            header[128..136].copy_from_slice(&size.to_be_bytes());
        }
    }
    header[136..148].copy_from_slice(format!("{time:011o}\0").as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[157..157 + link.len()].copy_from_slice(link);
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.write_all(&header)
}

/// The header of a file of that size.
pub fn head(out: Out<'_>, name: &str, size: u64) -> io::Result<()> {
    header(out, Header { kind: b'0', name: name.as_bytes(), link: b"", mode: 0o644, time: 0, size })
}

/// An entry with its content.
fn entry(out: Out<'_>, kind: u8, name: &str, data: &[u8]) -> io::Result<()> {
    header(out, Header { kind, name: name.as_bytes(), link: b"", mode: 0o755, time: 0, size: data.len() as u64 })?;
    out.write_all(data)?;
    out.write_all(&vec![0; data.len().wrapping_neg() % 512])
}

fn end(out: Out<'_>) -> io::Result<()> {
    out.write_all(&[0; 1024])
}

/// A PAX record.
fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}

/// An archive of one file.
pub fn plain() -> Feed {
    Box::new(|out| {
        entry(out, b'0', "f", b"content")?;
        end(out)
    })
}

/// PAX headers of nearly a mebibyte before one entry, each with other attributes.
pub fn many_headers(count: usize) -> Feed {
    Box::new(move |out| {
        for i in 0..count {
            let values: Vec<Vec<u8>> =
                (0..16).map(|j| record(&format!("SCHILY.xattr.user.{i}.{j}"), &vec![b'a'; 60 << 10])).collect();
            entry(out, b'x', "x", &values.concat())?;
        }
        entry(out, b'0', "f", b"")?;
        end(out)
    })
}

/// One extended header of that size.
pub fn large_header(kind: u8, size: u64) -> Feed {
    Box::new(move |out| {
        header(out, Header { kind, name: b"x", link: b"", mode: 0o644, time: 0, size })?;
        let piece = vec![b'a'; 1 << 20];
        for _ in 0..size / piece.len() as u64 {
            out.write_all(&piece)?;
        }
        end(out)
    })
}

/// Directories with so many bytes of attributes each, of a name that is left out when they are set.
pub fn directories(count: usize, bytes: usize) -> Feed {
    Box::new(move |out| {
        let value = record("SCHILY.xattr.user.overlay.x", &vec![b'a'; bytes]);
        for i in 0..count {
            entry(out, b'x', "x", &value)?;
            entry(out, b'5', &format!("d{i}/"), b"")?;
        }
        end(out)
    })
}

/// Directories whose paths are nearly as long as paths can be.
pub fn long_directories(count: usize) -> Feed {
    Box::new(move |out| {
        let above = format!("{}/", "n".repeat(240)).repeat(15);
        for i in 0..count {
            entry(out, b'x', "x", &record("path", format!("{above}{i}/").as_bytes()))?;
            entry(out, b'5', "d/", b"")?;
        }
        end(out)
    })
}

/// Directories with a time and a mode, and something in each that comes after it.
pub fn dated_directories(count: u64) -> Feed {
    Box::new(move |out| {
        let value = record("SCHILY.xattr.user.overlay.x", &[b'a'; 1000]);
        for i in 0..count {
            entry(out, b'x', "x", &value)?;
            header(
                out,
                Header {
                    kind: b'5',
                    name: format!("d{i}/").as_bytes(),
                    link: b"",
                    mode: 0o2750,
                    time: 1_000_000 + i,
                    size: 0,
                },
            )?;
            entry(out, b'0', &format!("d{i}/f"), b"")?;
        }
        // One that a file replaces: its mode is not the file's.
        header(out, Header { kind: b'5', name: b"gone/", link: b"", mode: 0o700, time: 5, size: 0 })?;
        entry(out, b'0', "gone", b"")?;
        end(out)
    })
}

/// Documents that an archive of images could have.
pub fn documents(count: usize, size: usize) -> Feed {
    Box::new(move |out| {
        let text = vec![b' '; size];
        for i in 0..count {
            entry(out, b'0', &format!("{i}.json"), &text)?;
        }
        end(out)
    })
}

pub fn one_document(name: &'static str, size: u64) -> Feed {
    Box::new(move |out| {
        header(out, Header { kind: b'0', name: name.as_bytes(), link: b"", mode: 0o644, time: 0, size })?;
        let piece = vec![b' '; 1 << 20];
        for _ in 0..size / piece.len() as u64 {
            out.write_all(&piece)?;
        }
        end(out)
    })
}

/// Links with long names to long names.
pub fn names(count: usize) -> Feed {
    Box::new(move |out| {
        let long = format!("{}/", "n".repeat(240)).repeat(14);
        for i in 0..count {
            let path = record("path", format!("{long}{i}").as_bytes());
            entry(out, b'x', "x", &[path, record("linkpath", format!("/{long}").as_bytes())].concat())?;
            entry(out, b'2', "l", b"")?;
        }
        end(out)
    })
}

/// A file whose size stands in an extended header, with what looks like another entry in its content.
pub fn hidden_entry() -> Vec<u8> {
    let mut inside = Vec::new();
    entry(&mut inside, b'0', "inside", b"hidden").expect("write");
    let mut all = Vec::new();
    entry(&mut all, b'x', "x", &record("size", inside.len().to_string().as_bytes())).expect("write");
    header(&mut all, Header { kind: b'0', name: b"carrier", link: b"", mode: 0o644, time: 0, size: 0 }).expect("write");
    all.extend(inside);
    entry(&mut all, b'0', "after", b"").expect("write");
    end(&mut all).expect("write");
    all
}

/// An image configuration for this machine, without layers.
fn configuration(run: Value) -> Value {
    serde_json::from_str(&archive::config(run, &[])).expect("a document")
}

fn saved(name: &str, config: &str, layers: &[(String, Vec<u8>)]) -> Vec<u8> {
    let config_name = format!("{}.json", sha256(config.as_bytes()));
    let paths: Vec<&str> = layers.iter().map(|(path, _)| path.as_str()).collect();
    let manifest = json!([{ "Config": config_name, "RepoTags": [name], "Layers": paths }]).to_string();
    let tar = Tar::new().file(&config_name, config.as_bytes());
    let tar = layers.iter().fold(tar, |tar, (path, layer)| tar.file(path, layer));
    tar.file("manifest.json", manifest.as_bytes()).end()
}

/// An image without layers.
pub fn image(name: &str, run: Value) -> Vec<u8> {
    saved(name, &configuration(run).to_string(), &[])
}

/// An image on the layers of busybox.
pub fn image_on_busybox(name: &str, run: Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::fs::File::open(busybox_archive()).and_then(|mut file| file.read_to_end(&mut bytes)).expect("busybox");
    let files = archive::files(&bytes);
    let manifest: Value = serde_json::from_slice(&files["manifest.json"]).expect("its manifest");
    let text = |value: &Value| value.as_str().expect("a path").to_owned();
    let mut config: Value = serde_json::from_slice(&files[&text(&manifest[0]["Config"])]).expect("its configuration");
    config["config"] = run;
    let layers = manifest[0]["Layers"].as_array().expect("its layers").iter().map(text);
    let layers: Vec<(String, Vec<u8>)> = layers.map(|path| (path.clone(), files[&path].clone())).collect();
    saved(name, &config.to_string(), &layers)
}

/// An image whose history is `step` again and again.
pub fn history(count: usize, step: &'static str) -> Feed {
    let text = configuration(json!({ "Cmd": ["x"] })).to_string();
    let history = format!("\"history\":[{}]", vec![step; count].join(","));
    bytes(saved("history:1", &format!("{{{history},{}", &text[1..]), &[]))
}

/// One configuration of half a mebibyte that is many images'.
pub fn one_for_all(oci: bool) -> Feed {
    let config = configuration(json!({ "Cmd": ["x".repeat(1 << 19)] })).to_string();
    let count = 2000;
    if !oci {
        let name = format!("{}.json", sha256(config.as_bytes()));
        let manifest = json!(vec![json!({ "Config": name, "Layers": [] }); count]).to_string();
        return bytes(Tar::new().file(&name, config.as_bytes()).file("manifest.json", manifest.as_bytes()).end());
    }
    let blob = |text: &str| (format!("blobs/sha256/{}", sha256(text.as_bytes())), text.as_bytes().to_vec());
    let digest = |text: &str| format!("sha256:{}", sha256(text.as_bytes()));
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({ "schemaVersion": 2, "config": { "digest": digest(&config), "size": 1 }, "layers": [] }).to_string();
    let listed = json!({ "mediaType": kind, "digest": digest(&manifest), "size": 1 });
    let index = json!({ "schemaVersion": 2, "manifests": vec![listed; count] }).to_string();
    let files = [blob(&config), blob(&manifest), ("index.json".into(), index.into_bytes())];
    bytes(files.iter().fold(Tar::new(), |tar, (path, data)| tar.file(path, data)).end())
}

/// A build context with that build file.
pub fn context(file: &str) -> Feed {
    bytes(Tar::new().file("Dockerfile", file.as_bytes()).end())
}

/// The result of a program's reading of an archive.
pub fn packed(program: &str, feed: Feed) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(["-q", "-c", "-1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let mut input = child.stdin.take().expect("its input");
    let writer = std::thread::spawn(move || feed(&mut input));
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("the writer").expect("write");
    assert!(output.status.success(), "{program}");
    output.stdout
}

/// An archive of odd headers, of about so many bytes, the same for the same seed. The targets of its links lie in it.
pub fn generated(seed: u64, size: usize, sparse: bool) -> Feed {
    Box::new(move |out| {
        let mut random = Random(seed);
        let (mut written, mut number) = (0usize, 0usize);
        let mut counted = Counted { out, count: &mut written };
        while *counted.count < size {
            number += 1;
            one(&mut counted, &mut random, number, sparse)?;
        }
        end(&mut counted)
    })
}

struct Counted<'a> {
    out: Out<'a>,
    count: &'a mut usize,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        *self.count += bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// One entry of a generated archive, with what precedes it.
fn one(out: Out<'_>, random: &mut Random, number: usize, sparse: bool) -> io::Result<()> {
    // Mostly within what one entry may have; sometimes all of it, rarely more.
    let room = match random.below(2000) {
        0 => 2 << 20,
        1..=100 => 900 << 10,
        _ => 20 << 10,
    };
    let kind = random.below(12);
    match random.below(10) {
        // Targets of links keep their names.
        _ if kind == 4 => {}
        0 => attributes(out, random, room)?,
        1 => entry(out, b'L', "././@LongLink", &long_name(random, room.min(4000), number))?,
        2 => entry(out, b'K', "././@LongLink", &long_name(random, room.min(4000), number))?,
        3 => entry(out, b'g', "g", &record("comment", &vec![b'c'; random.below(room)]))?,
        4 => entry(out, b'x', "x", &record("path", &long_name(random, 4000, number)))?,
        5 => {
            let many: Vec<u8> = (0..room / 40).flat_map(|_| record("comment", b"again")).collect();
            entry(out, b'x', "x", &many)?;
        }
        _ => {}
    }
    let name = format!("e{number}");
    match kind {
        0..=2 => entry(out, b'5', &format!("{name}/"), b""),
        // A repeated entry ends a load at once.
        3 => entry(out, b'0', if sparse { "same" } else { &name }, &vec![b's'; random.below(3000)]),
        4 => {
            entry(out, b'0', &name, b"linked")?;
            for i in 0..random.below(200) {
                header(
                    out,
                    Header {
                        kind: b'1',
                        name: format!("{name}.{i}").as_bytes(),
                        link: name.as_bytes(),
                        mode: 0o644,
                        time: 0,
                        size: 0,
                    },
                )?;
            }
            Ok(())
        }
        5 => header(out, Header { kind: b'2', name: name.as_bytes(), link: b"same", mode: 0o777, time: 0, size: 0 }),
        6 if sparse => sparse_by_headers(out, random, &name, room),
        7 if sparse => sparse_by_content(out, random, &name),
        8 => header(out, Header { kind: b'6', name: name.as_bytes(), link: b"", mode: 0o600, time: 0, size: 0 }),
        9 => entry(out, b'0', &format!("deep/{}f", "d/".repeat(random.below(40))), b"deep"),
        _ => entry(out, b'0', &name, &vec![b'f'; random.below(room)]),
    }
}

fn attributes(out: Out<'_>, random: &mut Random, room: usize) -> io::Result<()> {
    let (mut records, mut i) = (Vec::new(), 0);
    let largest = [100, 3000, 60_000][random.below(3)];
    while records.len() < room && i < 900 {
        i += 1;
        records.extend(record(&format!("SCHILY.xattr.user.overlay.{i}"), &vec![b'v'; random.below(largest)]));
    }
    entry(out, b'x', "x", &records)
}

fn long_name(random: &mut Random, most: usize, number: usize) -> Vec<u8> {
    let parts = random.below(most.min(3600) / 240) + 1;
    format!("{}{number}", format!("{}/", "l".repeat(200)).repeat(parts)).into_bytes()
}

fn sparse_by_headers(out: Out<'_>, random: &mut Random, name: &str, room: usize) -> io::Result<()> {
    let pieces = random.below((room / 8).min(60_000)) + 1;
    let map: Vec<String> = (0..pieces).map(|i| format!("{},0", i * 10)).collect();
    let size = (pieces * 10).to_string();
    let records = [record("GNU.sparse.size", size.as_bytes()), record("GNU.sparse.map", map.join(",").as_bytes())];
    entry(out, b'x', "x", &records.concat())?;
    entry(out, b'0', name, b"")
}

fn sparse_by_content(out: Out<'_>, random: &mut Random, name: &str) -> io::Result<()> {
    let pieces = random.below(5000) + 1;
    let mut map = format!("{pieces}\n");
    (0..pieces).for_each(|i| map.push_str(&format!("{}\n0\n", i * 4)));
    let mut content = map.into_bytes();
    content.resize(content.len().next_multiple_of(512), 0);
    let records = [
        record("GNU.sparse.major", b"1"),
        record("GNU.sparse.minor", b"0"),
        record("GNU.sparse.realsize", (pieces * 4).to_string().as_bytes()),
    ];
    entry(out, b'x', "x", &records.concat())?;
    entry(out, b'0', name, &content)
}
