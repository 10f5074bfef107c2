//! The places where a program is looked for that is named without a slash: one in each directory of `PATH`.

/// Bytes of the longest path, with its NUL.
pub const CANDIDATE: usize = 4096;

/// The directories of the value of `PATH`. An empty one is the working directory.
pub fn directories(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b':').map(|dir| if dir.is_empty() { b"." } else { dir })
}

/// Writes the path of a program in a directory, with a NUL. Answers whether there is one: no program has an empty name,
/// and no path is too long.
pub fn candidate(buffer: &mut [u8; CANDIDATE], dir: &[u8], program: &[u8]) -> bool {
    let length = dir.len() + 1 + program.len();
    if program.is_empty() || length >= buffer.len() {
        return false;
    }
    buffer[..dir.len()].copy_from_slice(dir);
    buffer[dir.len()] = b'/';
    buffer[dir.len() + 1..length].copy_from_slice(program);
    buffer[length] = 0;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_is_searched_and_an_empty_one_is_the_working_directory() {
        let all: Vec<&[u8]> = directories(b"/bin::/usr/bin:").collect();
        assert_eq!(all, [&b"/bin"[..], b".", b"/usr/bin", b"."]);
        assert_eq!(directories(b"").collect::<Vec<_>>(), [b"."]);
    }

    #[test]
    fn a_candidate_is_a_path_with_its_nul() {
        let mut buffer = [0xff; CANDIDATE];
        assert!(candidate(&mut buffer, b"/usr/bin", b"sh"));
        assert_eq!(&buffer[..12], b"/usr/bin/sh\0");
    }

    #[test]
    fn an_empty_name_and_a_long_path_have_no_candidate() {
        let mut buffer = [0; CANDIDATE];
        assert!(!candidate(&mut buffer, b"/bin", b""));
        assert!(candidate(&mut buffer, &[b'd'; CANDIDATE - 4], b"sh"));
        assert!(!candidate(&mut buffer, &[b'd'; CANDIDATE - 3], b"sh"));
    }
}
