//! Settings of the host that forwarding needs. Each is changed only where it differs, and its old value is recorded: the last
//! root that uses networks on the host restores it.

use crate::error::{Error, Result};
use crate::kernel::file::lock_byte;
use crate::model::HostSetting;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The files of `/proc/sys/net`.
const BASE: &str = "/proc/sys/net";

pub(super) fn get(key: &str) -> String {
    std::fs::read_to_string(format!("{BASE}/{key}")).unwrap_or_default().trim().to_owned()
}

/// Changes a setting where it differs; answers the old value if it did.
pub(super) fn set(key: &str, value: &str) -> Result<Option<String>> {
    let before = get(key);
    if before == value {
        return Ok(None);
    }
    let path = format!("{BASE}/{key}");
    std::fs::write(&path, value)
        .map_err(|e| Error::io(format_args!("write {value} to {path}"), &e).in_area("network"))?;
    Ok(Some(before))
}

/// The settings of the host that networks change.
pub(crate) struct Settings {
    /// The root's run directory.
    pub(super) run: PathBuf,
}

/// The record of the host's settings, which all roots of a host share.
struct Shared {
    path: PathBuf,
    /// Keeps other programs out.
    _lock: File,
}

impl Settings {
    /// The settings of the host that any root changed since the boot, with the values from before. The settings of
    /// an interface are not among them: they go with the interface.
    pub(crate) fn changed(&self) -> Vec<HostSetting> {
        let now = |setting: HostSetting| HostSetting { now: get(&setting.name), ..setting };
        read(&self.path()).into_iter().map(now).collect()
    }

    /// Changes a setting of the whole host.
    pub(super) fn change(&self, key: &str, value: &str) -> Result<()> {
        if get(key) == value {
            return Ok(());
        }
        let shared = self.shared()?;
        let before = get(key);
        if before != value {
            let mut all = read(&shared.path);
            // The oldest value counts: it is the host's own.
            if all.iter().all(|setting| setting.name != key) {
                all.push(HostSetting { name: key.into(), before, set: value.into(), now: String::new() });
            }
            // The record comes before the change: a setting that is recorded and was not changed is not restored.
            write(&shared.path, &all)?;
            set(key, value)?;
        }
        Ok(())
    }

    /// A host that forwards ignores router advertisements unless `accept_ra` is 2: interfaces that accepted them before
    /// go on to accept them.
    pub(super) fn forward_v6(&self) -> Result<()> {
        if get("ipv6/conf/all/forwarding") == "1" {
            return Ok(());
        }
        for entry in std::fs::read_dir(Path::new(BASE).join("ipv6/conf")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let key = format!("ipv6/conf/{name}/accept_ra");
            if name != "all" && get(&key) == "1" {
                self.change(&key, "2")?;
            }
        }
        self.change("ipv6/conf/all/forwarding", "1")
    }

    /// Restores the settings of the host that were changed, except those that another program has changed since. `needed` says
    /// whether somebody still needs them; no other root can change a setting while it runs.
    pub(super) fn restore(&self, needed: impl FnOnce() -> Result<bool>) -> Result<()> {
        if !self.path().exists() {
            return Ok(());
        }
        let shared = self.shared()?;
        if needed()? {
            return Ok(());
        }
        for setting in read(&shared.path).iter().rev().filter(|setting| get(&setting.name) == setting.set) {
            set(&setting.name, &setting.before)?;
        }
        match std::fs::remove_file(&shared.path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove the record of settings", &e)),
            _ => Ok(()),
        }
    }

    fn shared(&self) -> Result<Shared> {
        let path = self.path();
        let dir = path.parent().unwrap_or(&self.run);
        let lock = lock_in(dir, "settings.lock")?;
        // Not at each change: the sweep looks at every thread of the host.
        if !path.exists() {
            sweep(dir);
        }
        Ok(Shared { path, _lock: lock })
    }

    /// Keeps programs of every root from taking the same name or subnet for a bridge meanwhile.
    pub(super) fn lock_bridges(&self) -> Result<BridgesLock> {
        lock_in(self.path().parent().unwrap_or(&self.run), "bridges.lock").map(BridgesLock)
    }

    /// The file of the record: one for each network namespace that is a host. A root that may not write there has its own file.
    fn path(&self) -> PathBuf {
        let shared = Path::new(SHARED);
        let usable = match std::fs::metadata(shared) {
            Ok(there) => there.is_dir() && there.uid() == nix::unistd::geteuid().as_raw(),
            Err(_) => nix::unistd::geteuid().is_root() && shared.parent().is_some_and(Path::is_dir),
        };
        if !usable {
            return self.run.join("net/settings");
        }
        let inode = std::fs::metadata(OWN_NAMESPACE).map_or(0, |namespace| namespace.ino());
        shared.join(format!("{inode}-{}", crate::kernel::netlink::namespace_cookie()))
    }
}

/// The lock of the host's bridges, held.
pub(super) struct BridgesLock(#[expect(dead_code, reason = "it is held until it is closed")] File);

/// A lock that roots share.
fn lock_in(dir: &Path, name: &str) -> Result<File> {
    let lock = dir.join(name);
    let failed = |e: &std::io::Error| Error::io(format_args!("open {}", lock.display()), e);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| failed(&e))?;
    let mut open = File::options();
    let file = open.read(true).write(true).create(true).truncate(false).mode(0o600).open(&lock);
    let file = file.map_err(|e| failed(&e))?;
    lock_byte(&file, 0, lock.display())?;
    Ok(file)
}

/// The directory of the records of all roots.
const SHARED: &str = "/run/coracle-host";
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

fn read(path: &Path) -> Vec<HostSetting> {
    crate::document::read(&std::fs::read(path).unwrap_or_default()).unwrap_or_default()
}

fn write(path: &Path, all: &[HostSetting]) -> Result<()> {
    let staged = path.with_extension("new");
    let text = serde_json::to_vec(all).map_err(|e| Error::internal(format!("write the settings: {e}")))?;
    std::fs::write(&staged, text)
        .and_then(|()| std::fs::rename(&staged, path))
        .map_err(|e| Error::io(format_args!("write {}", path.display()), &e))
}

/// Best effort: removes the records of network namespaces that no thread and no name in /run/netns refers to any more. Under
/// the lock.
fn sweep(dir: &Path) {
    let entries = |dir: &Path| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    // A thread may be in another namespace than its process.
    let tasks = entries(Path::new("/proc")).flat_map(|process| entries(&process.join("task")));
    let processes = tasks.map(|task| task.join("ns/net"));
    let own = [PathBuf::from(OWN_NAMESPACE)];
    let all = processes.chain(entries(Path::new("/run/netns"))).chain(own);
    let alive: Vec<u64> = all.filter_map(|path| Some(std::fs::metadata(path).ok()?.ino())).collect();
    for path in entries(dir) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let inode = name.split_once('-').and_then(|(inode, _)| inode.parse::<u64>().ok());
        if inode.is_some_and(|inode| !alive.contains(&inode)) {
            let _ = std::fs::remove_file(path);
        }
    }
}
