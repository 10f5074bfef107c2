//! A directory of the host that no container is told of. An attack that reads or changes one of its files is noticed:
//! the files by fanotify while the attack lasts, their facts by a look before and one after. Each root of these tests
//! has one beside it ([`beside`]); attacks that aim at one have another.

use crate::support::{Root, temp_dir};
use nix::fcntl::AT_FDCWD;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The content of the canary's file, which nothing else on the machine has.
pub const SECRET: &str = "the canary's secret";

pub struct Canary {
    pub dir: PathBuf,
    before: BTreeMap<PathBuf, Facts>,
    watch: Fanotify,
}

/// Owner, mode, device and time of change of a file, and what it holds.
#[derive(Debug, PartialEq, Eq)]
struct Facts(u32, u32, u32, u64, i64, Vec<u8>);

impl Canary {
    /// In the directory of `root`, which takes it away.
    pub fn new(root: &Root) -> Canary {
        Canary::at(root.dir.join("canary"))
    }

    fn at(dir: PathBuf) -> Canary {
        for (name, content) in [("passwd", SECRET), ("empty", ""), ("sub/deep/secret", SECRET)] {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("make the canary");
            std::fs::write(&path, content).expect("write the canary");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("its mode");
        }
        let before = facts(&dir);
        let watch = Fanotify::init(InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_NONBLOCK, EventFFlags::O_RDONLY);
        let watch = watch.expect("fanotify");
        let mask = MaskFlags::FAN_OPEN | MaskFlags::FAN_ACCESS | MaskFlags::FAN_MODIFY;
        for path in before.keys().filter(|path| path.is_file()) {
            watch.mark(MarkFlags::FAN_MARK_ADD, mask, AT_FDCWD, Some(path)).expect("watch the canary");
        }
        Canary { dir, before, watch }
    }

    /// The path of a part of it.
    pub fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// The path by which an attacker in a directory of a container would climb to the canary.
    pub fn climb(&self, name: &str) -> String {
        format!("../../../../../..{}", self.path(name))
    }

    /// Asserts that nobody has touched it.
    #[track_caller]
    pub fn untouched(&self) {
        self.untouched_by("somebody");
    }

    /// Like [`Self::untouched`]; the failure names `who`.
    #[track_caller]
    pub fn untouched_by(&self, who: &str) {
        let events = self.watch.read_events().unwrap_or_default();
        let seen: Vec<_> = events.iter().map(|event| (event.pid(), event.mask())).collect();
        assert!(seen.is_empty(), "the canary was looked into: {seen:?}, {who}");
        assert_eq!(facts(&self.dir), self.before, "the canary was changed, {who}");
        // This look was ours.
        let _ = self.watch.read_events();
    }
}

static OF_ROOTS: Mutex<BTreeMap<PathBuf, Canary>> = Mutex::new(BTreeMap::new());

/// A canary beside a new root, as long as the root is there: no attack of these tests may touch it, whatever it aims at.
pub fn beside(root: &Path) {
    let canary = Canary::at(root.with_extension("canary"));
    OF_ROOTS.lock().insert(root.to_owned(), canary);
}

/// Asserts that nobody has touched the canary of a root that ends, unless its test has failed already.
pub fn behind(root: &Path) {
    let Some(canary) = OF_ROOTS.lock().remove(root) else { return };
    let _taken = Taken(canary.dir.clone());
    if !std::thread::panicking() {
        canary.untouched_by("with no attack aimed at it");
    }
}

/// Takes a directory away, also where the assertion fails.
struct Taken(PathBuf);

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn facts(dir: &Path) -> BTreeMap<PathBuf, Facts> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let meta = std::fs::symlink_metadata(&path).expect("look at the canary");
        let content = if meta.is_file() { std::fs::read(&path).expect("read the canary") } else { Vec::new() };
        if meta.is_dir() {
            left.extend(
                std::fs::read_dir(&path).expect("list the canary").map(|entry| entry.expect("an entry").path()),
            );
        }
        // The time of a directory's change says that a name came or went, the one of a file that anything of it did.
        found.insert(path, Facts(meta.uid(), meta.gid(), meta.mode(), meta.rdev(), meta.ctime_nsec(), content));
    }
    found
}

#[test]
fn a_look_into_the_canary_of_a_root_is_seen() {
    let dir = temp_dir();
    let ends = || std::panic::catch_unwind(|| behind(&dir)).is_ok();
    beside(&dir);
    assert!(ends(), "nobody was there");
    let canary = dir.with_extension("canary");
    type Touch = fn(&Path) -> std::io::Result<()>;
    let touches: [Touch; 4] = [
        |canary| std::fs::read(canary.join("sub/deep/secret")).map(drop),
        |canary| std::fs::write(canary.join("empty"), "x"),
        |canary| std::fs::write(canary.join("sub/new"), "x"),
        |canary| std::fs::set_permissions(canary.join("sub"), PermissionsExt::from_mode(0o777)),
    ];
    for (number, touch) in touches.iter().enumerate() {
        beside(&dir);
        touch(&canary).expect("touch it");
        assert!(!ends(), "touch {number} was not seen");
        assert!(!canary.exists(), "it is taken away");
    }
    std::fs::remove_dir(&dir).expect("remove");
}
