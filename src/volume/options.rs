//! Options of the `local` driver: a file system or a directory that is mounted where the volume is used.

use crate::error::{Error, ErrorKind, Result};
use crate::kernel::lookup;
use crate::kernel::probe::release;
use crate::model::StringMap;
use std::path::PathBuf;
use std::time::Duration;

/// The source that a container mounts for a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A directory, the volume's own or one that its options or its plugin name: that one's owners are the host's. `below` is the path
    /// below it in a directory that a plugin may write in; empty: the directory itself.
    Directory { path: PathBuf, below: String, recursive: bool, attributes: u64, own: bool },
    /// A file system made for the mount; `options` are (key, value) or (key, "").
    FileSystem { kind: String, device: String, options: Vec<(String, String)>, attributes: u64 },
}

/// File systems that are their mount: a second mount would be another, or harm the first.
const SHARED: [&str; 3] = ["tmpfs", "ramfs", "overlay"];

impl Source {
    /// Whether there is one mount for all containers that use the volume at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Source::FileSystem { kind, .. } if SHARED.contains(&kind.as_str()))
    }

    /// Whether its owners are the container's, where that has a user namespace.
    pub(crate) fn has_own_ids(&self) -> bool {
        match self {
            Source::Directory { own, .. } => *own,
            // Kernels before do not map the owners of memory.
            Source::FileSystem { kind, .. } => kind == "tmpfs" && release() >= (6, 3),
        }
    }
}

/// Options, and the options that each needs.
const NEEDS: [(&str, &[&str]); 3] = [("device", &["type"]), ("o", &["device", "type"]), ("type", &["device"])];

/// Checks the options of a new volume. Errors: an option that there is not, or one that needs another.
pub(crate) fn check(options: &StringMap) -> Result<()> {
    for key in options.keys() {
        match key.as_str() {
            "type" | "device" | "o" => {}
            "size" => return Err(Error::invalid("quota size requested but no quota support")),
            _ => return Err(Error::invalid(format!("invalid option: {key:?}"))),
        }
    }
    for (key, needs) in NEEDS {
        if options.contains_key(key)
            && let Some(missing) = needs.iter().find(|need| !options.contains_key(**need))
        {
            return Err(Error::invalid(format!("missing required option: {missing:?}")));
        }
    }
    if let Some(bad) = options.values().find(|value| value.chars().any(char::is_control)) {
        return Err(Error::invalid(format!("option {bad:?} holds a control character")));
    }
    Ok(())
}

/// The source that these options mount; `None`: none, the volume is its directory.
pub(super) fn source(options: &StringMap) -> Result<Option<Source>> {
    let value = |key: &str| options.get(key).map_or("", String::as_str);
    let (kind, device) = (value("type"), value("device"));
    if kind.is_empty() && device.is_empty() {
        return Ok(None);
    }
    if device.is_empty() {
        return Err(Error::invalid("missing device in volume options"));
    }
    let (mut attributes, mut bind, mut data) = (0, None, Vec::new());
    for word in value("o").split(',').filter(|word| !word.is_empty()) {
        match word {
            "bind" => bind = Some(false),
            "rbind" => bind = Some(true),
            _ => match attribute(word) {
                Some((clear, set)) => attributes = attributes & !clear | set,
                None => {
                    let (key, value) = word.split_once('=').unwrap_or((word, ""));
                    data.push((key.to_owned(), value.to_owned()));
                }
            },
        }
    }
    if let Some(recursive) = bind {
        let (path, below) = (PathBuf::from(device), String::new());
        return Ok(Some(Source::Directory { path, below, recursive, attributes, own: false }));
    }
    if kind.starts_with("nfs") || kind == "cifs" {
        resolve(&mut data)?;
    }
    Ok(Some(Source::FileSystem { kind: kind.to_owned(), device: device.to_owned(), options: data, attributes }))
}

/// Whether options of a file system say which SELinux label its files have.
pub(crate) fn names_label(options: &[(String, String)]) -> bool {
    options.iter().any(|(key, _)| matches!(key.as_str(), "context" | "fscontext" | "defcontext" | "rootcontext"))
}

/// Owners of a file system in memory, as the host sees those of a user namespace.
pub(super) fn shift_owner(options: &mut [(String, String)], uid: u32, gid: u32) {
    for (key, value) in options {
        let first = match key.as_str() {
            "uid" => uid,
            "gid" => gid,
            _ => continue,
        };
        if let Some(id) = value.parse::<u32>().ok().and_then(|id| id.checked_add(first)) {
            *value = id.to_string();
        }
    }
}

/// Words of mount(8) that are of the mount, not of the file system: what they clear and set.
fn attribute(word: &str) -> Option<(u64, u64)> {
    const ATIME: u64 = libc::MOUNT_ATTR_NOATIME | libc::MOUNT_ATTR_STRICTATIME;
    Some(match word {
        "defaults" | "auto" | "noauto" | "_netdev" => (0, 0),
        "ro" => (0, libc::MOUNT_ATTR_RDONLY),
        "rw" => (libc::MOUNT_ATTR_RDONLY, 0),
        "nosuid" => (0, libc::MOUNT_ATTR_NOSUID),
        "suid" => (libc::MOUNT_ATTR_NOSUID, 0),
        "nodev" => (0, libc::MOUNT_ATTR_NODEV),
        "dev" => (libc::MOUNT_ATTR_NODEV, 0),
        "noexec" => (0, libc::MOUNT_ATTR_NOEXEC),
        "exec" => (libc::MOUNT_ATTR_NOEXEC, 0),
        "noatime" => (ATIME, libc::MOUNT_ATTR_NOATIME),
        "strictatime" => (ATIME, libc::MOUNT_ATTR_STRICTATIME),
        "atime" | "relatime" => (ATIME, 0),
        "nodiratime" => (0, libc::MOUNT_ATTR_NODIRATIME),
        "diratime" => (libc::MOUNT_ATTR_NODIRATIME, 0),
        _ => return None,
    })
}

/// How long the look-up of a server of a network file system may take.
const LOOK_UP: Duration = Duration::from_secs(30);

/// The kernel takes the server of a network file system as an address only.
fn resolve(data: &mut [(String, String)]) -> Result<()> {
    for (key, value) in data.iter_mut().filter(|(key, _)| key == "addr") {
        if value.parse::<std::net::IpAddr>().is_err() {
            let wrong = |error: Error| match error.kind() {
                ErrorKind::Timeout => error.context(format!("volume option {key}={value}")),
                _ => Error::invalid(format!("volume option {key}={value}: no such host")),
            };
            let found = lookup::addresses(&format!("{value}:0"), LOOK_UP).map_err(wrong)?;
            *value = found[0].ip().to_string();
        }
    }
    Ok(())
}

/// As the kernel's door takes options.
pub(crate) fn pairs(options: &[(String, String)]) -> Vec<(&str, &str)> {
    options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// Reads a document of options or labels as the database stores it.
pub(super) fn document(text: Option<&str>) -> Result<Option<StringMap>> {
    let map = text.map(serde_json::from_str).transpose();
    map.map_err(|error| Error::corrupt(format!("the stored options of a volume: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn options_that_cannot_be() {
        let refused = |pairs: &[(&str, &str)]| check(&map(pairs)).unwrap_err().message().to_owned();
        assert_eq!(refused(&[("foo", "x")]), "invalid option: \"foo\"");
        assert_eq!(refused(&[("type", "tmpfs")]), "missing required option: \"device\"");
        assert_eq!(refused(&[("o", "ro")]), "missing required option: \"device\"");
        assert_eq!(refused(&[("size", "1m")]), "quota size requested but no quota support");
        check(&map(&[("type", ""), ("device", ""), ("o", "")])).unwrap();
    }

    #[test]
    fn options_choose_the_source_of_the_mount() {
        assert_eq!(source(&map(&[])).unwrap(), None);
        assert_eq!(source(&map(&[("type", ""), ("device", ""), ("o", "")])).unwrap(), None);
        let bind = source(&map(&[("type", "none"), ("device", "/srv"), ("o", "bind,ro")])).unwrap().unwrap();
        let attributes = libc::MOUNT_ATTR_RDONLY;
        let (path, below) = ("/srv".into(), String::new());
        assert_eq!(bind, Source::Directory { path, below, recursive: false, attributes, own: false });
        let tmpfs = source(&map(&[("type", "tmpfs"), ("device", "tmpfs"), ("o", "size=1m,nosuid,huge")])).unwrap();
        let Some(Source::FileSystem { options, attributes, .. }) = tmpfs else { panic!("{tmpfs:?}") };
        assert_eq!(options, [("size".into(), "1m".into()), ("huge".into(), String::new())]);
        assert_eq!(attributes, libc::MOUNT_ATTR_NOSUID);
        let nfs = map(&[("type", "nfs"), ("device", ":/x"), ("o", "addr=127.0.0.1")]);
        assert!(matches!(source(&nfs).unwrap(), Some(Source::FileSystem { .. })));
        assert!(source(&map(&[("type", "ext4"), ("device", "")])).unwrap_err().message().contains("missing device"));
    }
}
