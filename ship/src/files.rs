//! Files that options name: a user's words, so they may be anything that has a path.

use nix::errno::Errno;
use nix::fcntl::OFlag;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The longest file that is read.
const MOST: u64 = 1 << 20;

/// Reads a file as it is now. Errors: it is not a regular file (`ENOTSUP`), or it is longer than 1 MiB (`EFBIG`). A
/// FIFO or a device blocks no call.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Errno> {
    let failed = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Errno::ENOTSUP);
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST { Err(Errno::EFBIG) } else { Ok(bytes) }
}

/// The reason why a file cannot be used, in words.
pub(crate) fn reason(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOTSUP => "not a regular file",
        Errno::EFBIG => "longer than 1 MiB",
        Errno::ENOKEY => "no certificate or key of this kind in the file",
        other => other.desc(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_endless_or_block_are_not_read() {
        let dir = std::env::temp_dir().join(format!("coracle-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (plain, long, fifo) = (dir.join("plain"), dir.join("long"), dir.join("fifo"));
        std::fs::write(&plain, "text").unwrap();
        std::fs::File::create(&long).unwrap().set_len(MOST + 1).unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read(&plain), Ok(b"text".to_vec()));
        assert_eq!(read(&long), Err(Errno::EFBIG));
        assert_eq!(read(&fifo), Err(Errno::ENOTSUP));
        assert_eq!(read(Path::new("/dev/zero")), Err(Errno::ENOTSUP));
        assert_eq!(read(&dir), Err(Errno::ENOTSUP));
        assert_eq!(read(&dir.join("none")), Err(Errno::ENOENT));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
