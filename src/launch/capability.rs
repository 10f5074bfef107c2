//! Capabilities: names, masks, and the set of a container.
//!
//! A set is a `u64` with bit *n* for capability number *n*, the form that the kernel and the launch plan use.

use crate::error::{Error, Result};
use caps::{CapSet, Capability};

/// The default capabilities of a container: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP,
/// NET_BIND_SERVICE, NET_RAW, SYS_CHROOT, MKNOD, AUDIT_WRITE and SETFCAP, as in dockerd.
pub(crate) const DEFAULT: u64 = 0xa804_25fb;

/// The word that stands for every capability in `CapAdd` and `CapDrop`.
const ALL: &str = "ALL";

/// The set of a container: [`requested`], limited by `bounding`, the most that this host can give.
///
/// # Errors
/// An unknown name, with dockerd's text.
pub(crate) fn effective(privileged: bool, add: &[String], drop: &[String], bounding: u64) -> Result<u64> {
    Ok(requested(privileged, add, drop)? & bounding)
}

/// The set that `Privileged`, `CapAdd` and `CapDrop` request, by the rules of dockerd 20.10: privileged gives all;
/// adding `ALL` gives all but the dropped ones; dropping `ALL` leaves exactly the added ones; otherwise the dropped
/// ones are removed from the default set, then the added ones are added, so a name in both lists is added.
///
/// # Errors
/// An unknown name, with dockerd's text.
pub(crate) fn requested(privileged: bool, add: &[String], drop: &[String]) -> Result<u64> {
    let add = Words::parse(add).map_err(|error| error.context("invalid CapAdd"))?;
    let drop = Words::parse(drop).map_err(|error| error.context("invalid CapDrop"))?;
    Ok(if privileged {
        all()
    } else if add.all {
        all() & !drop.set
    } else if drop.all {
        add.set
    } else {
        DEFAULT & !drop.set | add.set
    })
}

/// The most that a container on this host can get: the bounding set of the calling thread.
pub(crate) fn host_bounding() -> Result<u64> {
    let set = caps::read(None, CapSet::Bounding)
        .map_err(|error| Error::internal(format!("read the capability bounding set: {error}")))?;
    Ok(set.iter().map(|cap| cap.bitmask()).sum())
}

/// The number of a capability with its full name in any case, such as `CAP_KILL`.
pub(crate) fn number(name: &str) -> Option<u8> {
    name.to_ascii_uppercase().parse::<Capability>().ok().map(|cap| cap.index())
}

/// Every capability with a known name.
pub(crate) fn all() -> u64 {
    caps::all().iter().map(|cap| cap.bitmask()).sum()
}

/// One of the two lists of a request.
struct Words {
    all: bool,
    set: u64,
}

impl Words {
    fn parse(list: &[String]) -> Result<Words> {
        let mut words = Words { all: false, set: 0 };
        for word in list {
            let mut name = word.to_ascii_uppercase();
            if name == ALL {
                words.all = true;
                continue;
            }
            if !name.starts_with("CAP_") {
                name.insert_str(0, "CAP_");
            }
            let number = number(&name).ok_or_else(|| Error::invalid(format!("unknown capability: {name:?}")))?;
            words.set |= 1 << number;
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    /// The names of a set, in the order of their numbers.
    fn names(set: u64) -> Vec<String> {
        let mut known: Vec<Capability> = caps::all().into_iter().filter(|cap| set & cap.bitmask() != 0).collect();
        known.sort_by_key(|cap| cap.index());
        known.iter().map(Capability::to_string).collect()
    }

    fn bit(name: &str) -> u64 {
        1 << number(name).unwrap()
    }

    #[test]
    fn default_set_by_name() {
        let mut wanted = list(&[
            "CHOWN",
            "DAC_OVERRIDE",
            "FSETID",
            "FOWNER",
            "MKNOD",
            "NET_RAW",
            "SETGID",
            "SETUID",
            "SETFCAP",
            "SETPCAP",
            "NET_BIND_SERVICE",
            "SYS_CHROOT",
            "KILL",
            "AUDIT_WRITE",
        ]);
        assert_eq!(requested(false, &list(&["cap_chown"]), &list(&["all"])).unwrap(), 1);
        assert_eq!(requested(false, &wanted, &list(&["ALL"])).unwrap(), DEFAULT);
        wanted.iter_mut().for_each(|name| name.insert_str(0, "CAP_"));
        wanted.sort();
        let mut got = names(DEFAULT);
        got.sort();
        assert_eq!(got, wanted);
    }

    #[test]
    fn forty_one_known() {
        assert_eq!(all(), (1 << 41) - 1);
        assert_eq!(number("CAP_CHECKPOINT_RESTORE"), Some(40));
        assert_eq!(number("CHOWN"), None);
    }

    #[test]
    fn rules() {
        let get = |add: &[&str], drop: &[&str]| requested(false, &list(add), &list(drop)).unwrap();
        assert_eq!(get(&[], &[]), DEFAULT);
        assert_eq!(get(&["sys_admin"], &["KILL"]), DEFAULT & !bit("CAP_KILL") | bit("CAP_SYS_ADMIN"));
        assert_eq!(get(&["KILL"], &["KILL"]), DEFAULT);
        assert_eq!(get(&["ALL"], &["cap_kill"]), all() & !bit("CAP_KILL"));
        assert_eq!(get(&["ALL"], &["ALL"]), all());
        assert_eq!(get(&[], &["ALL"]), 0);
        assert_eq!(requested(true, &[], &list(&["ALL"])).unwrap(), all());
    }

    #[test]
    fn unknown_names() {
        let error = effective(false, &list(&["foo"]), &[], u64::MAX).unwrap_err();
        assert_eq!(error.message(), "invalid CapAdd: unknown capability: \"CAP_FOO\"");
        assert_eq!(error.http_status(), 400);
        let error = effective(false, &[], &list(&["CAP_ALL"]), u64::MAX).unwrap_err();
        assert_eq!(error.message(), "invalid CapDrop: unknown capability: \"CAP_ALL\"");
        assert!(requested(true, &list(&["foo"]), &[]).is_err(), "privileged does not hide a mistake");
    }

    #[test]
    fn bounded_by_the_host() {
        let bounding = all() & !bit("CAP_SYS_RESOURCE");
        assert_eq!(effective(true, &[], &[], bounding).unwrap(), bounding);
        let lost = requested(false, &list(&["SYS_RESOURCE", "SYS_TIME"]), &[]).unwrap() & !bounding;
        assert_eq!(names(lost), ["CAP_SYS_RESOURCE"]);
    }

    #[test]
    fn host_bounding_agrees_with_proc() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:\t")).unwrap();
        assert_eq!(host_bounding().unwrap(), u64::from_str_radix(line, 16).unwrap() & all());
    }
}
