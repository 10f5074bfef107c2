//! The kernel that a test runs on, for what older ones cannot; a test that shows less there says so.

/// The first two numbers of the running kernel's release.
pub fn release() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the release");
    let mut numbers =
        text.split(|letter: char| !letter.is_ascii_digit()).map(|digits| digits.parse().expect("a number"));
    (numbers.next().expect("the first"), numbers.next().expect("the second"))
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
