//! The rig of `powercut` under dockerd, for comparison: what it acknowledged, what of it is there after a cut, and whether
//! that is whole. Nothing here is about this library: the outcome is counted and printed, `docs/power-cuts.md` tells it.
//!
//!     CORACLE_POWER_CUTS=100 cargo test --test suite -- --ignored --nocapture powercut_peer::dockerd

use crate::powercut::{Tally, behind, content_at, layer, registry_beside, survivors};
use crate::support::disk::{Disk, Entry};
use crate::support::registry::Registry;
use crate::support::*;
use nix::mount::{MsFlags, mount};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MACHINE: &str = "CORACLE_SUITE_POWER_PEER";
const DISK: usize = 192 << 20;
const STEPS: usize = 30;

#[test]
#[ignore = "a comparison, not a test: see docs/power-cuts.md"]
fn dockerd() {
    let dir = temp_dir();
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "powercut_peer::machine", "--nocapture", "--test-threads=1"])
        .env(MACHINE, &dir)
        .status()
        .expect("run unshare");
    std::fs::remove_dir_all(&dir).expect("clean up");
    assert!(status.success(), "see above");
}

/// Images by id: their names and layers, as far as that was acknowledged.
type Images = BTreeMap<String, BTreeSet<String>>;

#[derive(Debug, Default)]
struct Found {
    cuts: usize,
    all_well: usize,
    does_not_start: usize,
    /// An acknowledged image, or a name of it, is not there.
    lost: usize,
    /// An acknowledged image is there, and cannot be saved, or is not what it was, or does not run.
    damaged: usize,
    /// An image that nobody acknowledged yet is there, and is not whole.
    half_made: usize,
    /// Damaged images that stay damaged after another pull.
    stays_damaged: usize,
}

/// The program inside the machine, not a test by itself.
#[test]
fn machine() {
    let Ok(dir) = std::env::var(MACHINE) else { return };
    let dir = PathBuf::from(dir);
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cuts = setting("CORACLE_POWER_CUTS").unwrap_or(50);
    let mut random = Random(setting("CORACLE_SEED").unwrap_or(1));
    let registry = registry_beside(&dir);
    let disk = Disk::new(&dir.join("disk"), DISK);
    let (before, steps, log) = work(&disk, &dir, &registry, &mut random);
    println!("{} steps acknowledged, {} writes and flushes", steps.len() - 1, log.len());

    let mut moments: Vec<usize> = (0..cuts).map(|_| 1 + random.below(log.len())).collect();
    behind(&mut moments, steps.iter().map(|(at, ..)| *at));
    let (mut content, mut flushed) = (before, 0);
    let (mut made, mut found) = (Tally::default(), Found::default());
    for moment in moments {
        flushed = content_at(&mut content, &log, flushed, moment);
        let (how, volatile) = survivors(&log[flushed..moment], &mut random, &mut made);
        disk.restore(std::mem::take(&mut content), &volatile);
        let known = steps.iter().rposition(|(at, ..)| *at <= moment).expect("the first step is at 0");
        let next = steps.get(known + 1).map(|step| &step.1);
        let told = look(&disk, &dir, &registry, &steps[known].1, next, &mut found);
        println!("cut at {moment} ({how}), after {:?}: {told}", steps[known].2);
        content = disk.take();
    }
    println!("{made:?}\n{found:?}");
}

/// A dockerd whose data lie on the disk.
struct Peer {
    run: PathBuf,
    child: Child,
}

impl Peer {
    /// `None`: it does not come up.
    fn start(disk: &Path, dir: &Path) -> Option<Peer> {
        let run = dir.join("docker-run");
        std::fs::create_dir_all(&run).expect("mkdir");
        mount(Some("run"), &run, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("mount a tmpfs");
        let log = std::fs::File::create(dir.join("docker.log")).expect("a log");
        let child = Command::new("dockerd")
            .arg("--data-root")
            .arg(disk.join("docker"))
            .arg("--exec-root")
            .arg(run.join("exec"))
            .arg("--pidfile")
            .arg(run.join("pid"))
            .args(["-H", &format!("unix://{}/sock", run.display())])
            .args(["--bridge", "none", "--iptables=false", "--ip6tables=false", "--storage-driver", "overlay2"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("dockerd (installed by tools/setup test)");
        let mut peer = Peer { run, child };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if peer.docker(&["version"]).status.success() {
                return Some(peer);
            }
            if peer.child.try_wait().expect("wait").is_some() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        None
    }

    fn docker(&self, words: &[&str]) -> Output {
        let host = format!("unix://{}/sock", self.run.display());
        let mut command = Command::new("docker");
        command.args(["-H", &host]).args(words).env("DOCKER_CONFIG", self.run.join("none")).env("DOCKER_BUILDKIT", "0");
        command.stdin(Stdio::null()).output().expect("docker (installed by tools/setup test)")
    }

    fn images(&self) -> Images {
        let out = self.docker(&["images", "-aq", "--no-trunc"]);
        let ids: BTreeSet<String> = String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
        let mut images = Images::new();
        for id in ids {
            let out = self.docker(&["image", "inspect", &id]);
            let shown: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
            let tags = shown[0]["RepoTags"].as_array().cloned().unwrap_or_default();
            images.insert(id, tags.iter().filter_map(|tag| tag.as_str().map(str::to_owned)).collect());
        }
        images
    }

    /// The damage of an image: the content of its layers against their digests, and a container of it.
    fn wrong(&self, id: &str) -> Option<String> {
        let out = self.docker(&["save", id]);
        if !out.status.success() {
            return Some(format!("save: {}", String::from_utf8_lossy(&out.stderr).trim()));
        }
        let files = archive::files(&out.stdout);
        let read = |name: &str| serde_json::from_slice::<Value>(files.get(name).map_or(&[][..], |data| data));
        let manifest = read("manifest.json").unwrap_or_default();
        let config = read(manifest[0]["Config"].as_str().unwrap_or_default()).unwrap_or_default();
        let want: Vec<&str> =
            config["rootfs"]["diff_ids"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let have: Vec<String> = manifest[0]["Layers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|path| files.get(path.as_str()?))
            .map(|data| format!("sha256:{}", archive::sha256(data)))
            .collect();
        if want != have || want.is_empty() {
            return Some(format!("layers {have:?} instead of {want:?}"));
        }
        let busybox = config["config"]["Cmd"][0] == "sh";
        if busybox {
            let out = self.docker(&["run", "--rm", "--network", "none", id, "sh", "-c", "exit 7"]);
            if out.status.code() != Some(7) {
                return Some(format!("run: {:?} {}", out.status, String::from_utf8_lossy(&out.stderr).trim()));
            }
        }
        None
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        use nix::sys::signal::{Signal, kill};
        let pid = |text: String| text.trim().parse().ok().map(nix::unistd::Pid::from_raw);
        let containerd = std::fs::read_to_string(self.run.join("exec/containerd/containerd.pid")).ok().and_then(pid);
        let _ = kill(nix::unistd::Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            if let Some(pid) = containerd {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
        // The mounts below its data directory, and the directory itself; the mount namespace is ours.
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let below: Vec<&str> = table.lines().filter_map(|line| line.split(' ').nth(4)).collect();
        for at in below
            .into_iter()
            .rev()
            .filter(|at| at.contains("/mnt/docker") || at.starts_with(&*self.run.to_string_lossy()))
        {
            let _ = nix::mount::umount2(at, nix::mount::MntFlags::MNT_DETACH);
        }
    }
}

type Step = (usize, Images, String);

/// Loads, pulls, tags, builds and removes; notes each acknowledgement.
fn work(disk: &Disk, dir: &Path, registry: &Registry, random: &mut Random) -> (Vec<u8>, Vec<Step>, Vec<Entry>) {
    let mounted = disk.mount();
    let before = disk.record();
    let peer = Peer::start(mounted.path(), dir).expect("dockerd starts on a new disk");
    let mut steps =
        vec![(0, Images::new(), "nothing".to_owned()), (disk.recorded(), peer.images(), "start".to_owned())];
    for number in 0..STEPS {
        let told = step(&peer, dir, registry, random, number);
        let at = disk.recorded();
        steps.push((at, peer.images(), told));
        // At the pace of people: the kernel itself writes data that is some seconds old.
        std::thread::sleep(Duration::from_millis(random.below(1500) as u64));
    }
    let log = disk.stop();
    drop(peer);
    drop(mounted);
    (before, steps, log)
}

fn step(peer: &Peer, dir: &Path, registry: &Registry, random: &mut Random, number: usize) -> String {
    let what = if number < 4 { number } else { random.below(6) };
    let (told, out) = match what {
        0 => {
            let name = format!("{}/busybox:1", registry.host());
            ("pull busybox".to_owned(), peer.docker(&["pull", &name]))
        }
        1 | 4 => {
            let path = format!("team/{}", random.below(3));
            (format!("pull {path}"), peer.docker(&["pull", &format!("{}/{path}:1", registry.host())]))
        }
        2 => {
            let name = format!("cut/{}:1", random.below(4));
            let layers: Vec<Vec<u8>> =
                (0..=random.below(3) as u64).map(|at| layer(at, 2000 + 40_000 * random.below(4))).collect();
            let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
            let file = dir.join("load.tar");
            std::fs::write(&file, archive::image(&name, &layers)).expect("write");
            (format!("load {name}"), peer.docker(&["load", "-i", &file.to_string_lossy()]))
        }
        3 => {
            let context = dir.join("context");
            std::fs::create_dir_all(&context).expect("mkdir");
            let file = format!(
                "FROM {}/busybox:1\nRUN echo {number} > /made && mkdir -p /d\nCOPY f /d/\nRUN cat /d/f > /d/g\n",
                registry.host()
            );
            std::fs::write(context.join("Dockerfile"), file).expect("write");
            std::fs::write(context.join("f"), vec![number as u8; 20_000]).expect("write");
            let tag = format!("built/{}:1", number % 2);
            let out = peer.docker(&["build", "-q", "--network", "none", "-t", &tag, &context.to_string_lossy()]);
            (format!("build {tag}"), out)
        }
        _ => {
            let name = format!("cut/{}:1", random.below(4));
            (format!("remove {name}"), peer.docker(&["rmi", &name]))
        }
    };
    if out.status.success() { told } else { format!("refused: {told}") }
}

/// Starts dockerd on what the cut left; returns what was found.
fn look(
    disk: &Disk,
    dir: &Path,
    registry: &Registry,
    known: &Images,
    next: Option<&Images>,
    found: &mut Found,
) -> String {
    found.cuts += 1;
    let mounted = disk.mount();
    let Some(peer) = Peer::start(mounted.path(), dir) else {
        found.does_not_start += 1;
        let log = std::fs::read_to_string(dir.join("docker.log")).unwrap_or_default();
        return format!("does not start: {}", log.lines().last().unwrap_or_default());
    };
    let seen = peer.images();
    let next = next.unwrap_or(known);
    let (mut lost, mut damaged, mut half_made) = (Vec::new(), Vec::new(), Vec::new());
    for (id, names) in known {
        let gone = match seen.get(id) {
            // Removed by what was not acknowledged yet.
            None => next.contains_key(id),
            Some(have) => {
                names.iter().any(|name| !have.contains(name) && next.get(id).is_some_and(|next| next.contains(name)))
            }
        };
        if gone {
            lost.push(format!("{} {names:?}", &id[7..19]));
        }
    }
    for id in seen.keys() {
        if let Some(wrong) = peer.wrong(id) {
            let list = if known.contains_key(id) { &mut damaged } else { &mut half_made };
            list.push(format!("{}: {wrong}", &id[7..19]));
        }
    }
    found.lost += usize::from(!lost.is_empty());
    found.damaged += usize::from(!damaged.is_empty());
    found.half_made += usize::from(!half_made.is_empty());
    if lost.is_empty() && damaged.is_empty() && half_made.is_empty() {
        found.all_well += 1;
        return "all well".into();
    }
    if !damaged.is_empty() || !half_made.is_empty() {
        for path in ["busybox", "team/0", "team/1", "team/2"] {
            peer.docker(&["pull", &format!("{}/{path}:1", registry.host())]);
        }
        found.stays_damaged += usize::from(seen.keys().any(|id| peer.wrong(id).is_some()));
    }
    format!("lost {lost:?}, damaged {damaged:?}, half made {half_made:?}")
}
