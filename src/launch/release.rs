//! The running kernel's release.

/// Its first two numbers, such as (6, 18); zeroes if it has no such form.
pub(crate) fn kernel() -> (u32, u32) {
    nix::sys::utsname::uname().map(|name| parse(&name.release().to_string_lossy())).unwrap_or_default()
}

/// Whatever follows the second number (`-rc1`, `.44-cloud`) does not count.
fn parse(release: &str) -> (u32, u32) {
    let mut parts = release.splitn(3, '.').map(|part| {
        let digits = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse().unwrap_or(0)
    });
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(parse("6.1.0-27-cloud-amd64"), (6, 1));
        assert_eq!(parse("5.10-rc2"), (5, 10));
        assert_eq!(parse("odd"), (0, 0));
        assert!(kernel() >= (4, 8));
    }
}
