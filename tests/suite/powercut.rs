//! The power goes: a root on a disk that remembers every write and flush (`tests/support/disk.rs`) is opened again as each
//! cut left it. It opens unaided, nothing that was acknowledged is lost, nothing torn is seen.
//!
//! A cut keeps what was flushed, and of the writes since then: all, none, or a random choice, the last perhaps in part.
//! A plain run takes a few cuts; `CORACLE_POWER_CUTS=N` in the environment sets how many.

use crate::support::disk::{Disk, Entry, Mounted};
use crate::support::registry::Registry;
use crate::support::*;
use coracle::model::*;
use coracle::{Context, Durability, Engine, Options};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How a process of this test program is told to be the machine whose power goes.
const MACHINE: &str = "CORACLE_SUITE_POWER";
const DISK: usize = 96 << 20;

#[test]
fn nothing_acknowledged_is_lost() {
    let dir = temp_dir();
    in_a_mount_namespace("private", "powercut::machine", &[(MACHINE, &dir)]);
    std::fs::remove_dir_all(&dir).expect("clean up");
}

/// The program inside the machine, not a test by itself.
#[test]
fn machine() {
    let Ok(dir) = std::env::var(MACHINE) else { return };
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cuts = setting("CORACLE_POWER_CUTS").unwrap_or(12);
    let seed = setting("CORACLE_SEED").unwrap_or(1);
    // A workload gives a few hundred moments worth a cut.
    let rounds = cuts.div_ceil(500);
    let mut made = Tally::default();
    let registry = registry_beside(Path::new(&dir));
    for round in 0..rounds {
        let mut random = Random(seed + round * 977);
        let disk = Disk::new(&PathBuf::from(&dir).join(format!("disk-{round}")), DISK);
        let recording = work(&disk, &registry, &mut random, if cuts < 100 { 14 } else { 60 });
        cut(disk, &registry, &recording, cuts.min(500), &mut random, &mut made);
    }
    println!("power cuts: {made:?}");
}

/// A registry on another disk: busybox as `busybox`, and as `team/0` to `team/2` images that share layers.
pub fn registry_beside(dir: &Path) -> Registry {
    let registry = Registry::plain(&dir.join("registry"));
    let root = Root::new();
    let push = |image: &str, path: &str| {
        let name = format!("{}/{path}:1", registry.host());
        root.engine.image_tag(image, &name).expect("tag");
        let request = PushImage { name, ..PushImage::default() };
        root.engine.image_push_tags(&request, &mut |_| Ok(()), Some(&soon())).expect("push");
    };
    push(IMAGE, "busybox");
    for number in 0..3 {
        let layers: Vec<Vec<u8>> = (0..=number).map(|at| layer(20 + at, 150_000 + 50_000 * at as usize)).collect();
        let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
        let archive = archive::image("stock:1", &layers);
        root.engine.image_load(&mut &archive[..], &mut |_| Ok(()), Some(&soon())).expect("load");
        push("stock:1", &format!("team/{number}"));
    }
    registry
}

/// The events until the power was cut.
struct Recording {
    /// The disk before.
    before: Vec<u8>,
    log: Vec<Entry>,
    /// After each acknowledged step: how much was logged, and what there was.
    steps: Vec<(usize, Facts, String)>,
}

/// How many cuts there were, of which kind.
#[derive(Debug, Default)]
pub struct Tally {
    in_order: usize,
    without_unflushed: usize,
    reordered: usize,
    torn: usize,
}

/// The objects of an engine, by a key that names them; the values tell all that a tear would change.
type Facts = BTreeMap<String, String>;

/// The cuts, in the order of the recording so that the disk need not be made anew for each.
fn cut(disk: Disk, registry: &Registry, recording: &Recording, count: u64, random: &mut Random, made: &mut Tally) {
    let log = &recording.log;
    let mut moments: Vec<usize> = (0..count).map(|_| 1 + random.below(log.len())).collect();
    behind(&mut moments, recording.steps.iter().map(|(at, ..)| *at));
    let mut content = recording.before.clone();
    let mut flushed = 0;
    for (number, moment) in moments.into_iter().enumerate() {
        flushed = content_at(&mut content, log, flushed, moment);
        let (how, volatile) = survivors(&log[flushed..moment], random, made);
        disk.restore(std::mem::take(&mut content), &volatile);
        let known = recording.steps.iter().rposition(|(at, ..)| *at <= moment).expect("the first step is at 0");
        let next = recording.steps.get(known + 1);
        let what = format!(
            "cut {number} at {moment} of {} ({how}), after {:?}, in {:?}",
            log.len(),
            recording.steps[known].2,
            next.map(|step| &step.2)
        );
        if number % 100 == 99 {
            println!("{} cuts", number + 1);
        }
        look(&disk, registry, &recording.steps[known].1, next.map(|step| &step.1), &what, number);
        content = disk.take();
    }
}

/// Puts a third of the moments right behind an acknowledgement, which is where it can be broken; and all in their order.
pub fn behind(moments: &mut [usize], acknowledged: impl Iterator<Item = usize>) {
    for (moment, at) in moments.iter_mut().step_by(3).zip(acknowledged.filter(|at| *at > 0)) {
        *moment = at;
    }
    moments.sort_unstable();
}

/// Brings the content from what the first `flushed` entries made to what the last flush before `moment` did; returns how
/// many entries that are.
pub fn content_at(content: &mut [u8], log: &[Entry], flushed: usize, moment: usize) -> usize {
    let last = log[..moment].iter().rposition(|entry| matches!(entry, Entry::Flush)).map_or(0, |at| at + 1);
    for entry in log.get(flushed..last).unwrap_or_default() {
        if let Entry::Write { offset, data } = entry {
            content[*offset..*offset + data.len()].copy_from_slice(data);
        }
    }
    flushed.max(last)
}

/// Which of the writes that were not flushed are on the disk.
pub fn survivors<'a>(
    writes: &'a [Entry],
    random: &mut Random,
    made: &mut Tally,
) -> (&'static str, Vec<(usize, &'a [u8])>) {
    let all = writes.iter().filter_map(|entry| match entry {
        Entry::Write { offset, data } => Some((*offset, &data[..])),
        Entry::Flush => None,
    });
    match random.below(4) {
        0 => {
            made.in_order += 1;
            ("all that was written", all.collect())
        }
        1 => {
            made.without_unflushed += 1;
            ("only what was flushed", Vec::new())
        }
        2 => {
            made.reordered += 1;
            ("some of what was written", all.filter(|_| random.below(2) == 0).collect())
        }
        _ => {
            made.torn += 1;
            let mut kept: Vec<_> = all.filter(|_| random.below(4) != 0).collect();
            if let Some((_, data)) = kept.last_mut() {
                // Disks write blocks of this size whole, and ext4 relies on it for its first one.
                *data = &data[..random.below(data.len() / 4096) * 4096];
            }
            ("some of what was written, the last in part", kept)
        }
    }
}

/// Opens what the cut left.
fn look(disk: &Disk, registry: &Registry, known: &Facts, next: Option<&Facts>, what: &str, number: usize) {
    let mounted = disk.mount();
    let run = mounted.path().with_file_name("run");
    // A power cut loses everything on tmpfs.
    let _ = std::fs::remove_dir_all(&run);
    let Ok(root) = std::fs::read_dir(mounted.path().join("root")) else {
        assert!(known.is_empty(), "{what}: no root");
        return;
    };
    drop(root);
    let engine = open(&mounted).unwrap_or_else(|e| panic!("{what}: open: {e}"));
    let seen = facts(&engine, &mounted.path().join("root"), what);
    let next = next.unwrap_or(known);
    let mut keys: BTreeSet<&String> = known.keys().chain(next.keys()).chain(seen.keys()).collect();
    if known.is_empty() {
        // A root that was not acknowledged is made again, with networks of its own.
        keys.retain(|key| !key.starts_with("network "));
    }
    for key in keys {
        let value = seen.get(key);
        assert!(
            value == known.get(key) || value == next.get(key),
            "{what}: {key} is {value:?}, was {:?}, would be {:?}",
            known.get(key),
            next.get(key)
        );
    }
    whole(&engine, &mounted.path().join("root"), what);
    if number.is_multiple_of(7) {
        usable(&engine, what);
        goes_on(&engine, registry, &mounted.path().join("root"), what);
    }
    // The kernel loses its networks with the power, too.
    engine.network_release().unwrap_or_else(|e| panic!("{what}: release the networks: {e}"));
}

/// Nothing is there that nobody names: staging, layers, directories of containers.
fn whole(engine: &Engine, root: &Path, what: &str) {
    let mut staged = names(&root.join("tmp"));
    // The lower directory of an overlay without lower layers.
    staged.remove("empty");
    // A partial download of a layer stays for the next pull of it.
    staged.retain(|name| !name.starts_with("part-"));
    assert_eq!(staged, BTreeSet::new(), "{what}: staging");
    let all = ListContainers { all: true, ..ListContainers::default() };
    let list = engine.container_list(&all).expect("list");
    let ids: BTreeSet<String> = list.iter().map(|one| one.id.clone()).collect();
    assert_eq!(names(&root.join("containers")), ids, "{what}: directories of containers");
    let images = engine.image_list(&ListImages { all: true, ..ListImages::default() }).expect("list images");
    let used: BTreeSet<String> = images.iter().flat_map(|image| layers_of(engine, &image.id)).collect();
    let there = names(&root.join("layers"));
    // An image that was removed by force stays, unseen, as long as a container needs it.
    let unseen = list.iter().any(|one| images.iter().all(|image| image.id != one.image_id));
    assert!(there == used || unseen && there.is_superset(&used), "{what}: layers {there:?} for {used:?}");
}

/// Work goes on.
fn usable(engine: &Engine, what: &str) {
    let archive = archive::image("after/cut:1", &[&layer(9, 40_000), &layer(10, 3000)]);
    engine
        .image_load(&mut &archive[..], &mut |_| Ok(()), Some(&soon()))
        .unwrap_or_else(|e| panic!("{what}: load afterwards: {e}"));
    let body = serde_json::from_value(json!({ "Image": "after/cut:1", "HostConfig": { "NetworkMode": "none" } }));
    let id = engine
        .container_create(Some("after-the-cut"), &body.expect("a body"))
        .unwrap_or_else(|e| panic!("{what}: create afterwards: {e}"))
        .id;
    engine
        .container_remove(&id, RemoveContainer::default(), Some(&soon()))
        .unwrap_or_else(|e| panic!("{what}: remove afterwards: {e}"));
    engine.image_remove("after/cut:1", RemoveImage::default()).unwrap_or_else(|e| panic!("{what}: untag: {e}"));
}

/// A partial download that survived a cut does not harm the next one, and is used by it.
fn goes_on(engine: &Engine, registry: &Registry, root: &Path, what: &str) {
    for number in 0..3 {
        let (told, done) = pull(engine, registry, &format!("team/{number}"));
        done.unwrap_or_else(|e| panic!("{what}: {told} afterwards: {e}"));
    }
    pull(engine, registry, "busybox").1.unwrap_or_else(|e| panic!("{what}: pull busybox afterwards: {e}"));
    build(engine, registry, 0).1.unwrap_or_else(|e| panic!("{what}: build afterwards: {e}"));
    let left = engine.verify(&VerifyImages::default(), &mut |_| Ok(()), Some(&soon())).expect("verify").damage;
    assert_eq!(left, [], "{what}");
    let mut staged = names(&root.join("tmp"));
    staged.remove("empty");
    assert_eq!(staged, BTreeSet::new(), "{what}: parts of downloads after the pulls");
}

/// Pulls from the registry; returns what was done, and how it ended.
fn pull(engine: &Engine, registry: &Registry, path: &str) -> (String, coracle::Result<()>) {
    let request = PullImage { name: format!("{}/{path}:1", registry.host()), ..PullImage::default() };
    (format!("pull {path}"), engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&soon())).map(drop))
}

/// Builds on the registry's busybox, where that is here.
fn build(engine: &Engine, registry: &Registry, number: usize) -> (String, coracle::Result<()>) {
    let file = format!(
        "FROM {}/busybox:1\nLABEL l={}\nRUN echo {number} > /made && mkdir -p /d && rm -rf /tmp\nCOPY f /d/\nRUN cat /d/f > /d/g\n",
        registry.host(),
        number % 3
    );
    let data = vec![number as u8; 20_000 + 10_000 * (number % 4)];
    let tar = archive::Tar::new().file("Dockerfile", file.as_bytes()).file("f", &data).end();
    let tag = format!("built/{}:1", number % 2);
    let how = BuildImage { t: vec![tag.clone()], networkmode: "none".into(), ..BuildImage::default() };
    let built = engine.image_build(&how, Context::Tar(&mut &tar[..]), &mut |_| Ok(()), Some(&soon()));
    (format!("build {tag}"), built.map(drop))
}

fn open(mounted: &Mounted) -> coracle::Result<Engine> {
    let mut options = Options::new(mounted.path().join("root"));
    options.run_dir = Some(mounted.path().with_file_name("run"));
    options.durability = Durability::Full;
    Engine::open_with(options)
}

/// Does `count` random things to an engine on the disk, and notes each acknowledgement.
fn work(disk: &Disk, registry: &Registry, random: &mut Random, count: usize) -> Recording {
    let mounted = disk.mount();
    let root = mounted.path().join("root");
    let before = disk.record();
    let mut steps = vec![(0, Facts::new(), "nothing".to_owned())];
    {
        let engine = open(&mounted).expect("open a new root");
        steps.push((disk.recorded(), facts(&engine, &root, "at first"), "open".into()));
        for number in 0..count {
            let told = step(&engine, registry, random, number);
            // Before anything else is written: this is what the acknowledgement stands on.
            let at = disk.recorded();
            steps.push((at, facts(&engine, &root, &told), told));
        }
    }
    drop(mounted);
    Recording { before, log: disk.stop(), steps }
}

/// One operation; returns its description. A refusal is a result, too.
fn step(engine: &Engine, registry: &Registry, random: &mut Random, number: usize) -> String {
    let op = soon();
    let op = Some(&op);
    let image = match random.below(8) {
        6 => format!("{}/team/{}:1", registry.host(), random.below(3)),
        7 => format!("built/{}:1", random.below(2)),
        few => format!("cut/{}:1", few % 4),
    };
    let container = format!("box-{}", random.below(5));
    let volume = format!("vol-{}", random.below(3));
    // First what the others need.
    let what = match number {
        0..3 => 0,
        3 => 16,
        4 => 17,
        5 => 18,
        _ => random.below(20),
    };
    let done = match what {
        0 | 1 => {
            // Images that share layers.
            let few = random.below(3) as u64;
            let layers: Vec<Vec<u8>> = (0..=few).map(|at| layer(at, 2000 + 40_000 * random.below(4))).collect();
            let layers: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
            let archive = archive::image(&image, &layers);
            engine.image_load(&mut &archive[..], &mut |_| Ok(()), op).map(|_| format!("load {image}"))
        }
        2 => engine.image_tag(&image, &format!("also/{}:2", random.below(3))).map(|()| format!("tag {image}")),
        3 | 4 => {
            let force = RemoveImage { force: random.below(2) == 0, ..RemoveImage::default() };
            engine.image_remove(&image, force).map(|_| format!("remove image {image}"))
        }
        5..=7 => {
            let body = json!({ "Image": image, "Labels": { "step": number.to_string() },
                "HostConfig": { "NetworkMode": "none", "Binds": [format!("{volume}:/data")] } });
            let body = serde_json::from_value(body).expect("a body");
            engine.container_create(Some(&container), &body).map(|_| format!("create {container}"))
        }
        8 | 9 => {
            let how = RemoveContainer { force: true, ..RemoveContainer::default() };
            engine.container_remove(&container, how, op).map(|()| format!("remove {container}"))
        }
        10 => engine
            .container_rename(&container, &format!("box-{}", random.below(5)))
            .map(|()| format!("rename {container}")),
        11 => {
            let data = vec![number as u8; 1000 + 30_000 * random.below(3)];
            let tar = archive::Tar::new().file("put", &data).end();
            let put = engine.container_archive_put(&container, "/", &mut &tar[..], PutArchive::default(), op);
            put.and_then(|()| {
                let how = CommitContainer {
                    repo: format!("made/{}", random.below(2)),
                    tag: "1".into(),
                    ..Default::default()
                };
                engine.container_commit(&container, &how, op)
            })
            .map(|_| format!("commit {container}"))
        }
        12 => {
            let body = serde_json::from_value(json!({ "Name": volume })).expect("a body");
            engine.volume_create(&body).map(|_| format!("create volume {volume}"))
        }
        13 => engine.volume_remove(&volume).map(|()| format!("remove volume {volume}")),
        14 => {
            let body = json!({ "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": number } });
            let body: UpdateContainer = serde_json::from_value(body).expect("a body");
            engine.container_update(&container, &body).map(|_| format!("update {container}"))
        }
        16..=19 => {
            let (told, done) = match what {
                16 => pull(engine, registry, "busybox"),
                17 => pull(engine, registry, &format!("team/{}", random.below(3))),
                _ => build(engine, registry, number),
            };
            done.map(|()| told)
        }
        _ => {
            let name = format!("net-{}", random.below(2));
            if random.below(2) == 0 {
                let body = serde_json::from_value(json!({ "Name": name, "CheckDuplicate": true })).expect("a body");
                engine.network_create(&body).map(|_| format!("create network {name}"))
            } else {
                engine.network_remove(&name).map(|()| format!("remove network {name}"))
            }
        }
    };
    done.unwrap_or_else(|error| format!("refused: {error}"))
}

/// A layer of `size` bytes; the same for the same numbers.
pub fn layer(number: u64, size: usize) -> Vec<u8> {
    let mut random = Random(number * 31 + size as u64);
    let data: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
    let mut tar = archive::Tar::new().dir(&format!("dir-{number}"));
    for (at, part) in data.chunks(9000).enumerate() {
        tar = tar.file(&format!("dir-{number}/file-{at}"), part);
    }
    tar.symlink(&format!("link-{number}"), "dir-0")
        .hard_link(&format!("hard-{number}"), &format!("dir-{number}/file-0"))
        .end()
}

fn facts(engine: &Engine, root: &Path, what: &str) -> Facts {
    let mut facts = Facts::new();
    let images = engine
        .image_list(&ListImages { all: true, ..ListImages::default() })
        .unwrap_or_else(|e| panic!("{what}: list images: {e}"));
    for image in images {
        engine.image_history(&image.id).unwrap_or_else(|e| panic!("{what}: history of {}: {e}", image.id));
        for layer in layers_of(engine, &image.id) {
            let mut hasher = DefaultHasher::new();
            tree(&root.join("layers").join(&layer), &mut hasher);
            facts.insert(format!("layer {layer} of {}", image.id), format!("{:x}", hasher.finish()));
        }
        facts.insert(format!("image {}", image.id), format!("{} bytes", image.virtual_size));
        for tag in image.repo_tags.iter().flatten().filter(|tag| !tag.starts_with("<none>")) {
            facts.insert(format!("tag {tag}"), image.id.clone());
        }
    }
    let all = ListContainers { all: true, ..ListContainers::default() };
    for one in engine.container_list(&all).unwrap_or_else(|e| panic!("{what}: list: {e}")) {
        let it = engine.container_inspect(&one.id, false).unwrap_or_else(|e| panic!("{what}: inspect: {e}"));
        let told = format!("{} {} {} {:?}", it.name, it.image, it.state.status, it.host_config.restart_policy);
        facts.insert(format!("container {}", one.id), told);
    }
    for volume in engine.volume_list(&ListVolumes::default()).unwrap_or_else(|e| panic!("{what}: volumes: {e}")).volumes
    {
        assert!(Path::new(&volume.mountpoint).is_dir(), "{what}: {} has no directory", volume.name);
        facts.insert(format!("volume {}", volume.name), volume.driver);
    }
    for network in engine.network_list(&ListNetworks::default()).unwrap_or_else(|e| panic!("{what}: networks: {e}")) {
        facts.insert(format!("network {}", network.name), network.id);
    }
    facts
}

fn layers_of(engine: &Engine, image: &str) -> Vec<String> {
    let image = engine.image_inspect(image).unwrap_or_else(|e| panic!("inspect {image}: {e}"));
    image.root_fs.layers.iter().flatten().map(|id| id.trim_start_matches("sha256:").to_owned()).collect()
}

/// The whole content of a directory: names, kinds, modes, owners, data.
fn tree(dir: &Path, hasher: &mut DefaultHasher) {
    let mut entries: Vec<_> = std::fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.expect("read a directory").path())
        .collect();
    entries.sort();
    for path in entries {
        let data = std::fs::symlink_metadata(&path).expect("look at a file");
        (path.file_name(), data.mode(), data.uid(), data.gid(), data.nlink()).hash(hasher);
        if data.is_dir() {
            tree(&path, hasher);
        } else if data.is_symlink() {
            std::fs::read_link(&path).expect("read a link").hash(hasher);
        } else if data.is_file() {
            let content = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            // The campaign's time goes here: this one is compiled for speed.
            archive::sha256(&content).hash(hasher);
        }
    }
}

/// Names in a directory; none where it is not.
fn names(dir: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return BTreeSet::new() };
    entries.map(|entry| entry.expect("read a directory").file_name().to_string_lossy().into_owned()).collect()
}
