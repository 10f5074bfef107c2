//! AppArmor: the engine's own profile, and the check whether the kernel supports profiles.
//!
//! The kernel takes compiled profiles, and only apparmor_parser compiles a text: so the profile is compiled beforehand,
//! and loading it is one write. A process sets its own profile: see [`coracle_monitor::ops::Profile`] and
//! [`coracle_monitor::ops::ChangeProfile`].

use crate::error::{Error, Result};
use std::io::Write;
use std::sync::OnceLock;

/// The profile of containers that name none. Its name has a version: running containers keep their rules when a newer
/// library loads its own.
pub(crate) const DEFAULT: &str = "coracle-default-1";

/// No profile.
pub(crate) const UNCONFINED: &str = "unconfined";

/// The compiled form of `apparmor/coracle-default-1`.
const COMPILED: &[u8] = include_bytes!("apparmor/coracle-default-1.bin");

const POLICY: &str = "/sys/kernel/security/apparmor";

/// Whether the kernel confines by profiles; this does not change before the next boot.
pub(crate) fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| {
        std::fs::read("/sys/module/apparmor/parameters/enabled").is_ok_and(|text| text.starts_with(b"Y"))
    })
}

/// The profile of containers that name none, by the engine's options; none: the kernel has no AppArmor.
pub(crate) fn for_containers(asked: Option<&str>) -> Option<&str> {
    is_on().then(|| asked.unwrap_or(DEFAULT))
}

/// Checks the engine's option. Errors: the kernel has no AppArmor, or the text is not a profile's name.
pub(crate) fn check(asked: Option<&str>) -> Result<()> {
    match asked {
        None | Some(UNCONFINED) => Ok(()),
        Some("") => Err(Error::invalid("apparmor: an empty name is not a profile")),
        Some(name) if name.chars().any(char::is_control) => {
            Err(Error::invalid(format!("apparmor: {name:?} holds a control character")))
        }
        Some(name) if !is_on() => {
            Err(Error::unsupported(format!("apparmor: {name}: this host's kernel has no AppArmor")))
        }
        Some(_) => Ok(()),
    }
}

/// Loads the engine's own profile, unless it is loaded: services of the host may have unloaded it since the last start.
///
/// Errors: the profile cannot be loaded; the text says how containers start without it.
pub(crate) fn load_default() -> Result<()> {
    if is_loaded() {
        return Ok(());
    }
    let path = format!("{POLICY}/.replace");
    let written = std::fs::OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write(COMPILED));
    let why = match written {
        Ok(length) if length == COMPILED.len() => return Ok(()),
        Ok(length) => format!("write {path}: {length} of {} bytes were taken", COMPILED.len()),
        Err(error) => Error::io(format_args!("write {path}"), &error).message().to_owned(),
    };
    Err(Error::internal(format!(
        "unable to load the AppArmor profile {DEFAULT}: {why} (the security option apparmor=unconfined starts this container \
         without a profile, the engine's option apparmor names another one for all)"
    ))
    .in_area("launch"))
}

/// Whether the kernel has the profile. One line each: `name (mode)`.
fn is_loaded() -> bool {
    let loaded = std::fs::read_to_string(format!("{POLICY}/profiles")).unwrap_or_default();
    loaded.lines().any(|line| line.strip_prefix(DEFAULT).is_some_and(|mode| mode.starts_with(" (")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_compiled_profile_is_that_of_the_text() {
        let features = "/etc/apparmor.d/abi/3.0";
        let text = concat!(env!("CARGO_MANIFEST_DIR"), "/src/launch/apparmor/coracle-default-1");
        let output = Command::new("apparmor_parser")
            .args(["--skip-kernel-load", "--skip-cache", "--stdout", "--policy-features", features])
            .args(["--kernel-features", features, text])
            .output()
            .expect("apparmor_parser, of tools/setup test");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(
            output.stdout == COMPILED,
            "{DEFAULT}.bin is not what the parser makes of the text: see its first lines"
        );
    }

    #[test]
    fn names_are_checked_at_the_open() {
        check(None).unwrap();
        check(Some(UNCONFINED)).unwrap();
        assert!(check(Some("")).unwrap_err().message().contains("empty"));
        assert!(check(Some("a\nb")).unwrap_err().message().contains("control character"));
        match check(Some("no-such")) {
            Ok(()) => assert!(is_on()),
            Err(error) => assert!(!is_on() && error.message().contains("has no AppArmor"), "{error}"),
        }
    }
}
