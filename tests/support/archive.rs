//! Archives made by hand: the usual writers refuse what some tests need.

use serde_json::{Value, json};
use sha2::Digest;
use std::collections::BTreeMap;
use std::io::Read;

/// A tar being written.
#[derive(Default)]
pub struct Tar(Vec<u8>);

impl Tar {
    pub fn new() -> Tar {
        Tar::default()
    }

    /// One entry with any name and link, also ones that no writer makes.
    pub fn entry(mut self, kind: u8, name: &str, link: &str, mode: u32, data: &[u8]) -> Tar {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(format!("{mode:07o}\0").as_bytes());
        header[108..116].copy_from_slice(b"0000000\0");
        header[116..124].copy_from_slice(b"0000000\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].copy_from_slice(b"        ");
        header[156] = kind;
        header[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend(header);
        self.0.extend(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub fn file(self, name: &str, data: &[u8]) -> Tar {
        self.entry(b'0', name, "", 0o644, data)
    }

    pub fn dir(self, name: &str) -> Tar {
        self.entry(b'5', name, "", 0o755, b"")
    }

    pub fn symlink(self, name: &str, target: &str) -> Tar {
        self.entry(b'2', name, target, 0o777, b"")
    }

    pub fn hard_link(self, name: &str, target: &str) -> Tar {
        self.entry(b'1', name, target, 0o644, b"")
    }

    pub fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

/// A `docker save` archive of the image `name` with these layers, bottom first.
pub fn image(name: &str, layers: &[&[u8]]) -> Vec<u8> {
    let diff_ids: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", sha256(layer))).collect();
    let config = config(json!({ "Cmd": ["x"] }), &diff_ids);
    let config_name = format!("{}.json", sha256(config.as_bytes()));
    let paths: Vec<String> = (0..layers.len()).map(|i| format!("{i}/layer.tar")).collect();
    let manifest = json!([{ "Config": config_name, "RepoTags": [name], "Layers": paths }]).to_string();
    let mut tar = Tar::new().file(&config_name, config.as_bytes());
    for (path, layer) in paths.iter().zip(layers) {
        tar = tar.file(path, layer);
    }
    tar.file("manifest.json", manifest.as_bytes()).end()
}

/// An image configuration for this machine.
pub fn config(run: Value, diff_ids: &[String]) -> String {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    json!({ "architecture": architecture, "os": "linux", "created": "2020-01-02T03:04:05Z", "config": run,
        "rootfs": { "type": "layers", "diff_ids": diff_ids } })
    .to_string()
}

/// The regular files of a tar by their paths.
pub fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries().expect("read a tar") {
        let mut entry = entry.expect("an entry");
        if entry.header().entry_type().is_file() {
            let path = entry.path().expect("a path").display().to_string();
            let mut data = Vec::new();
            entry.read_to_end(&mut data).expect("its content");
            files.insert(path.trim_start_matches("./").to_owned(), data);
        }
    }
    files
}

/// These files as a tar again.
pub fn tar_of(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    files.iter().fold(Tar::new(), |tar, (path, data)| tar.file(path, data)).end()
}

pub fn sha256(data: &[u8]) -> String {
    hex(&sha2::Sha256::digest(data))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
