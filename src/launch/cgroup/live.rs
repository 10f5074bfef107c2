//! The groups of an existing container: their processes, freezing and killing all of them, changing limits, removal.

use super::files::Files;
use super::hierarchy::words_of;
use super::stats::{self, CgroupStats};
use super::{Hierarchies, OnError, Version, Write, group_path};
use crate::error::{Error, Result};
use crate::kernel::file::read_text;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest time for freezing. A process in an uninterruptible wait (a dead network disk) can delay it for ever.
const FREEZE_DEADLINE: Duration = Duration::from_secs(10);
/// The longest time in which the kernel releases killed processes.
const EMPTY_DEADLINE: Duration = Duration::from_secs(10);
/// How long `rmdir` of all groups may return "busy" while the last processes end.
const REMOVE_DEADLINE: Duration = Duration::from_secs(1);

/// One group's path, version and controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    version: Version,
    controllers: Vec<String>,
    dir: PathBuf,
}

impl Place {
    fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|one| one == controller)
    }
}

/// A container's groups on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Live {
    places: Vec<Place>,
}

/// Makes groups as the monitor does, for tests of the plans.
#[cfg(test)]
impl super::Plan {
    /// The groups once they exist.
    pub(crate) fn live(&self) -> Live {
        let place = |group: &super::Group| Place {
            version: group.version,
            controllers: group.controllers.clone(),
            dir: group.dir.clone(),
        };
        Live { places: self.groups.iter().map(place).collect() }
    }

    /// Makes the groups with all their values and no process, as the monitor does at a start, but without the device
    /// program of v2. After a failure removes the groups that it made.
    pub(crate) fn make(&self) -> Result<Live> {
        let live = self.live();
        let made = self.groups.iter().try_for_each(|group| {
            let above = group.dir.parent().unwrap_or(&group.mount);
            fs::create_dir_all(above).map_err(|error| Error::io(format!("mkdir {}", above.display()), &error))?;
            write_all(&group.mount, &group.parent_writes)?;
            match fs::create_dir(&group.dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    Err(Error::io(format!("mkdir {}", group.dir.display()), &error))
                }
                _ => write_all(&group.dir, &group.writes),
            }
        });
        if made.is_err() {
            let _ = live.remove();
        }
        made.map(|()| live)
    }
}

impl Live {
    /// The groups of container `id` below `parent`, whether they exist or not.
    ///
    /// # Errors
    /// A bad `CgroupParent`.
    pub(crate) fn locate(host: &Hierarchies, parent: &str, id: &str) -> Result<Live> {
        let path = group_path(parent, id)?;
        let place = |hierarchy: &super::Hierarchy| Place {
            version: hierarchy.version,
            controllers: hierarchy.controllers.clone(),
            dir: hierarchy.mount.join(&path),
        };
        Ok(Live { places: host.list.iter().map(place).collect() })
    }

    /// The processes in the container, also in groups that the container made, as ids of the caller's pid namespace.
    /// None if the groups are gone.
    pub(crate) fn pids(&self) -> Result<Vec<i32>> {
        let mut pids = Vec::new();
        match self.main() {
            Some(place) => pids_below(&place.dir, &mut pids)?,
            None => return Ok(pids),
        }
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    /// Freezes every process of the container; returns when all are frozen. If that takes more than 10 s, thaws them
    /// again and returns an error.
    pub(crate) fn freeze(&self) -> Result<()> {
        let frozen = match self.freezer()? {
            (Version::V1, dir) => freeze_v1(dir)?,
            (Version::V2, dir) => {
                put(&dir.join("cgroup.freeze"), "1")?;
                wait_for(FREEZE_DEADLINE, || field(&dir.join("cgroup.events"), "frozen") == Some(1))
            }
        };
        if !frozen {
            self.thaw()?;
            return Err(Error::internal(
                "the container's processes do not stop: the kernel did not freeze them in time",
            ));
        }
        Ok(())
    }

    /// Thaws the processes. Not an error if they are running.
    pub(crate) fn thaw(&self) -> Result<()> {
        match self.freezer()? {
            (Version::V1, dir) => put(&dir.join("freezer.state"), "THAWED"),
            (Version::V2, dir) => put(&dir.join("cgroup.freeze"), "0"),
        }
    }

    /// Writes new limits, those of [`super::update_writes`]. A failed write is repeated after the others, because two
    /// values may limit each other (memory and memory with swap).
    ///
    /// # Errors
    /// The first write that fails; earlier writes are undone.
    pub(crate) fn update(&self, writes: &[Write]) -> Result<()> {
        let mut before = Vec::new();
        let mut again = Vec::new();
        for write in writes {
            let file = self.dir_with(&write.file)?.join(&write.file);
            before.extend(fs::read_to_string(&file).ok().map(|value| (file.clone(), value)));
            if set(&file, &write.value).is_err() {
                again.push((file, write));
            }
        }
        let failed = again.iter().find_map(|(file, write)| match set(file, &write.value) {
            Err(error) if write.on_error == OnError::Fail => Some(error),
            _ => None,
        });
        let Some(failed) = failed else { return Ok(()) };
        // Twice, for the same reason; the first values were compatible.
        for (file, value) in before.iter().chain(&before) {
            let _ = put(file, value.trim_end());
        }
        Err(failed)
    }

    /// Kills every process of the container and waits until all are gone. Zombies stay in their group until they are
    /// reaped, so the caller's monitor must reap meanwhile.
    pub(crate) fn kill_all(&self) -> Result<()> {
        let deadline = Instant::now() + EMPTY_DEADLINE;
        let mut pause = Duration::from_micros(200);
        loop {
            if self.pids()?.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::internal("the container's processes do not end after SIGKILL"));
            }
            self.kill_once()?;
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Removes the groups and those below them; missing groups are not an error.
    ///
    /// # Errors
    /// Processes are still in one of them.
    pub(crate) fn remove(&self) -> Result<()> {
        let mut result = Ok(());
        let deadline = Instant::now() + REMOVE_DEADLINE;
        for place in &self.places {
            if let Err(error) = remove_tree(&place.dir, deadline) {
                result = Err(Error::io(format!("remove cgroup {}", place.dir.display()), &error));
            }
        }
        result
    }

    /// The container's present usage.
    pub(crate) fn stats(&self, files: &mut Files) -> CgroupStats {
        let place = |controller: &str| self.with(controller).map(|place| (place.version, place.dir.as_path()));
        stats::read(files, &place, self.unified().map(|place| place.dir.as_path()))
    }

    /// One round of killing: by the kernel in one step if it can (5.14), else one by one while all are frozen, because
    /// a frozen group cannot fork. A frozen process of v1 dies only when it is thawed.
    fn kill_once(&self) -> Result<()> {
        let stroke = self.unified().is_some_and(|place| put(&place.dir.join("cgroup.kill"), "1").is_ok());
        if !stroke {
            // Killing also works without freezing; it may only take more rounds.
            let _ = self.freeze();
        }
        for pid in self.pids()? {
            match kill(Pid::from_raw(pid), Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => return Err(Error::os(format!("kill process {pid}"), errno as i32)),
            }
        }
        let _ = self.thaw();
        Ok(())
    }

    fn with(&self, controller: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.has(controller))
    }

    fn unified(&self) -> Option<&Place> {
        self.places.iter().find(|place| place.version == Version::V2)
    }

    /// The group that shows best which processes are in the container: one that exists.
    fn main(&self) -> Option<&Place> {
        let wanted = [self.with("freezer"), self.unified(), self.with("pids"), self.with("memory")];
        wanted.into_iter().flatten().chain(&self.places).find(|place| place.dir.exists())
    }

    fn freezer(&self) -> Result<(Version, &Path)> {
        let place = self.with("freezer").or_else(|| self.unified());
        let place = place.ok_or_else(|| Error::unsupported("this host has no cgroup that can freeze processes"))?;
        Ok((place.version, &place.dir))
    }

    /// The group that has a control file; the controller's name comes before the dot.
    fn dir_with(&self, file: &str) -> Result<&Path> {
        let controller = file.split('.').next().unwrap_or_default();
        let place = self.with(controller);
        place.map(|place| place.dir.as_path()).ok_or_else(|| Error::unsupported(format!("this host has no {file}")))
    }
}

/// The v1 freezer can stop half way if processes fork meanwhile. Writing again makes it check again, and thawing for a
/// moment releases processes that wait for a frozen one.
fn freeze_v1(dir: &Path) -> Result<bool> {
    let file = dir.join("freezer.state");
    put(&file, "FROZEN")?;
    let mut tries = 0u32;
    Ok(wait_for(FREEZE_DEADLINE, || {
        if fs::read_to_string(&file).is_ok_and(|state| state.trim() == "FROZEN") {
            return true;
        }
        tries += 1;
        if tries.is_multiple_of(50) {
            let _ = put(&file, "THAWED");
        }
        let _ = put(&file, "FROZEN");
        false
    }))
}

/// Repeats the check at growing intervals, until it succeeds or time is up.
fn wait_for(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_micros(20);
    loop {
        if done() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

fn pids_below(dir: &Path, pids: &mut Vec<i32>) -> Result<()> {
    let read = match fs::read_to_string(dir.join("cgroup.procs")) {
        Ok(text) => text,
        // The group is gone: no process is in it. A threaded group (v2) lists its processes in the group above.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EOPNOTSUPP)) => String::new(),
        Err(error) => return Err(Error::io(format!("read {}", dir.join("cgroup.procs").display()), &error)),
    };
    // 0 stands for a process outside the reader's pid namespace, which cannot be used.
    pids.extend(read.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    for below in subdirs(dir) {
        pids_below(&below, pids)?;
    }
    Ok(())
}

fn remove_tree(dir: &Path, deadline: Instant) -> io::Result<()> {
    // Nearly always the monitor has removed it already.
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {}
        _ => return Ok(()),
    }
    for below in subdirs(dir) {
        remove_tree(&below, deadline)?;
    }
    let mut pause = Duration::from_micros(100);
    loop {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
            other => return other,
        }
    }
}

fn subdirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

#[cfg(test)]
fn write_all(dir: &Path, writes: &[Write]) -> Result<()> {
    writes.iter().try_for_each(|write| write_one(dir, write))
}

#[cfg(test)]
fn write_one(dir: &Path, write: &Write) -> Result<()> {
    match put(&dir.join(&write.file), &write.value) {
        Err(_) if write.on_error == OnError::Ignore => Ok(()),
        other => other,
    }
}

/// Writes a control file; never creates one.
fn put(file: &Path, value: &str) -> Result<()> {
    let opened = fs::OpenOptions::new().write(true).open(file);
    let result = opened.and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
    result.map_err(|error| Error::io(format!("write {value:?} to {}", file.display()), &error))
}

/// Writes a limit of a group that has processes.
fn set(file: &Path, value: &str) -> Result<()> {
    match file.file_name().and_then(|name| name.to_str()) {
        // v1 refuses if it cannot reclaim so much.
        Some("memory.limit_in_bytes") => put(file, value).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => too_low(value, file, ["memory.usage_in_bytes", "memory.max_usage_in_bytes"]),
            _ => error,
        }),
        // v2 kills to reach the limit. The throttling limit, above which it reclaims without killing, shows whether
        // that is needed.
        Some("memory.max") => {
            let usage = || number_in(&file.with_file_name("memory.current"));
            if let Ok(limit) = value.parse::<u64>()
                && usage() > limit
            {
                let high = file.with_file_name("memory.high");
                put(&high, value)?;
                let left = usage();
                put(&high, "max")?;
                if left > limit {
                    return Err(too_low(value, file, ["memory.current", "memory.peak"]));
                }
            }
            put(file, value)
        }
        _ => put(file, value),
    }
}

fn too_low(limit: &str, file: &Path, [usage, peak]: [&str; 2]) -> Error {
    let read = |name: &str| number_in(&file.with_file_name(name));
    let (usage, peak) = (read(usage), read(peak));
    Error::internal(format!("unable to set memory limit to {limit} (current usage: {usage}, peak usage: {peak})"))
}

/// The number in a file; 0 if there is none, as for `max`.
fn number_in(file: &Path) -> u64 {
    read_text(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The number after a word in a file of `word number` lines.
fn field(file: &Path, word: &str) -> Option<u64> {
    let words = words_of(file);
    words.chunks_exact(2).find(|pair| pair[0] == word).and_then(|pair| pair[1].parse().ok())
}
