//! Answers of the kernel that the monitor reads: those of netlink, the `stat` of a process, the count of a group's
//! kills. A container can choose only one part of them: the name of a process, at most 15 bytes, in brackets.

/// Acknowledgements in an answer of netlink: how many, and the first refusal among them (an error number above 0).
pub fn acknowledged(answer: &[u8]) -> (u32, Option<i32>) {
    const ERROR: u16 = 2;
    const HEADER: usize = 20;
    let (mut count, mut rest) = (0, answer);
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let size = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if u16::from_ne_bytes([header[4], header[5]]) == ERROR {
            count += 1;
            let error = i32::from_ne_bytes([header[16], header[17], header[18], header[19]]);
            if error != 0 {
                return (count, Some(error.saturating_neg()));
            }
        }
        // The next message begins at a multiple of four bytes. A message that claims to be shorter than its header is
        // as long as the header.
        rest = rest.get(size.max(HEADER).saturating_add(3) & !3..).unwrap_or(&[]);
    }
    (count, None)
}

/// A number after the name in `/proc/PID/stat`, counted from 1 as in proc(5); 0 if there is none.
pub fn stat_field(stat: &[u8], field: usize) -> u64 {
    // The command's name may hold anything, also spaces and brackets: fields are counted from its last bracket.
    let after = stat.iter().rposition(|&b| b == b')').map_or(0, |at| at + 2);
    let mut fields = stat.get(after..).unwrap_or(&[]).split(|&b| b == b' ');
    field.checked_sub(3).and_then(|index| fields.nth(index)).map_or(0, number)
}

/// How many processes the OOM killer has taken, as `memory.events` or `memory.oom_control` says.
pub fn oom_kills(text: &[u8]) -> u64 {
    text.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"oom_kill ")).map_or(0, number)
}

/// The digits at the beginning.
fn number(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|digit| digit.is_ascii_digit());
    digits.fold(0, |value: u64, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(size: u32, kind: u16, error: i32, length: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; length];
        bytes[..4].copy_from_slice(&size.to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[16..20].copy_from_slice(&error.to_ne_bytes());
        bytes
    }

    #[test]
    fn acknowledgements_are_counted_up_to_a_refusal() {
        let good = message(36, 2, 0, 36);
        let other = message(21, 16, 7, 24);
        assert_eq!(acknowledged(&[&good[..], &other, &good].concat()), (2, None));
        assert_eq!(acknowledged(&[&good[..], &message(36, 2, -17, 36), &good].concat()), (2, Some(17)));
        // Sizes that lie: none, one beyond the end, the largest there is.
        for size in [0, 4096, u32::MAX] {
            assert_eq!(acknowledged(&message(size, 2, 0, 20)), (1, None), "{size}");
        }
        assert_eq!(acknowledged(&good[..19]), (0, None));
    }

    #[test]
    fn a_name_of_a_process_moves_no_field() {
        let stat = b"17 (a) 1 2 (b) S 5 6 7 8 9 4";
        assert_eq!((stat_field(stat, 4), stat_field(stat, 9)), (5, 4));
        assert_eq!(
            (stat_field(stat, 100), stat_field(b"17 (never ends", 4), stat_field(b")", 22), stat_field(stat, 0)),
            (0, 0, 0, 0)
        );
        assert_eq!(oom_kills(b"oom 4\noom_kill 3\n"), 3);
        assert_eq!(oom_kills(b"oom_kill_disable 0\nunder_oom 0\n"), 0);
    }
}
