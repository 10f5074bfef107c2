//! The kernel that a test runs on, for what older ones cannot; a test that shows less there says so.

/// The first two numbers of the running kernel's release.
pub fn release() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the release");
    let mut numbers =
        text.split(|letter: char| !letter.is_ascii_digit()).map(|digits| digits.parse().expect("a number"));
    (numbers.next().expect("the first"), numbers.next().expect("the second"))
}

/// Whether the tests have mount_setattr(2): Linux has it since 5.12, and `tests/floor` hides it.
pub fn sets_attributes() -> bool {
    std::env::var_os("CORACLE_FLOOR").is_none() && release() >= (5, 12)
}

/// Whether containers can have user namespaces of their own. If not, an open refuses them and names the reason, and the test says that it
/// shows no more.
pub fn maps_owners() -> bool {
    if sets_attributes() && release() >= (5, 19) {
        return true;
    }
    let dir = super::temp_dir();
    let users = coracle::UsernsRemap { uid: 100_000, gid: 100_000, count: 65_536 };
    let options = coracle::Options { userns_remap: Some(users), ..super::options_at(&dir) };
    let error = coracle::Engine::open_with(options).err().expect("an engine with user namespaces");
    let text = error.message();
    assert_eq!(error.kind(), coracle::ErrorKind::Unsupported, "{text}");
    assert!(
        text.contains("userns_remap needs Linux 5.19") || text.contains("userns_remap: mount_setattr(2)"),
        "{text}"
    );
    std::fs::remove_dir_all(dir).expect("clean up");
    said("user namespaces are refused here; the rest of this test was not run\n");
    false
}

/// Whether the running kernel confines processes by AppArmor's profiles.
pub fn has_apparmor() -> bool {
    std::fs::read("/sys/module/apparmor/parameters/enabled").is_ok_and(|text| text.starts_with(b"Y"))
}

/// Whether the running kernel enforces a policy of SELinux.
pub fn enforces_selinux() -> bool {
    std::fs::read("/sys/fs/selinux/enforce").is_ok_and(|text| text.starts_with(b"1"))
}

/// Past the test harness, which keeps what a passing test prints.
pub fn said(text: &str) {
    use std::io::Write;
    std::io::stderr().write_all(text.as_bytes()).expect("write to stderr");
}
