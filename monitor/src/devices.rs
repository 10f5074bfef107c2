//! Numbers of devices, as mknod(2) takes them.

/// The number of a device: the lower 8 bits of `minor`, 12 bits of `major`, then the rest of both.
pub const fn number(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_c_library() {
        // As makedev(3) gives them.
        assert_eq!(number(1, 3), 0x103);
        assert_eq!(number(136, 255), 0x88ff);
        assert_eq!(number(8, 256), 0x10_0800);
        assert_eq!(number(4096, 0), 0x1000_0000_0000);
        assert_eq!(number(u32::MAX, u32::MAX), u64::MAX);
    }
}
