//! The code that every byte of a container's output passes on its way to the log. It is compiled for speed; the rest of
//! the monitor is compiled for size (`build.rs`). Loops here are vectors; for size they would be ten times as slow.

#![no_std]
#![forbid(unsafe_code)]

/// The bytes around a line in its record.
pub struct Around<'a> {
    pub stderr: bool,
    /// Members of the object, each with a comma behind it.
    pub attrs: &'a [u8],
    pub time: &'a [u8; 30],
}

/// How many bytes the record of a line takes at the most.
pub fn room(line: usize, attrs: usize) -> usize {
    6 * line + attrs + 128
}

/// Writes the record of a line, a JSON object and a newline; answers how many bytes it has. `out` must hold [`room`].
/// `whole`: the line ends here.
#[inline(never)]
pub fn record(out: &mut [u8], line: &[u8], whole: bool, around: Around<'_>) -> usize {
    let mut at = 0;
    put(out, &mut at, b"{\"log\":\"");
    at += escape(&mut out[at..], line);
    if whole {
        put(out, &mut at, b"\\n");
    }
    match around.stderr {
        false => put(out, &mut at, b"\",\"stream\":\"stdout\","),
        true => put(out, &mut at, b"\",\"stream\":\"stderr\","),
    }
    if !around.attrs.is_empty() {
        put(out, &mut at, around.attrs);
    }
    put(out, &mut at, b"\"time\":\"");
    put(out, &mut at, around.time);
    put(out, &mut at, b"\"}\n");
    at
}

#[inline(always)]
fn put(out: &mut [u8], at: &mut usize, text: &[u8]) {
    out[*at..*at + text.len()].copy_from_slice(text);
    *at += text.len();
}

/// How many newlines there are.
#[inline(never)]
pub fn newlines(data: &[u8]) -> u64 {
    // The compiler turns a sum over a short piece into vector instructions.
    data.chunks(192).map(|piece| u64::from(piece.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>())).sum()
}

/// Position of the first newline: pieces without one are skipped as vectors, then eight bytes at a time.
#[inline(never)]
pub fn find_newline(data: &[u8]) -> Option<usize> {
    const PIECE: usize = 32;
    const ONES: u64 = 0x0101_0101_0101_0101;
    let without = |piece: &&[u8]| !piece.iter().fold(false, |any, &byte| any | (byte == b'\n'));
    let mut at = PIECE * data.chunks_exact(PIECE).take_while(without).count();
    for word in data[at..].as_chunks::<8>().0 {
        let bits = u64::from_le_bytes(*word) ^ (ONES * b'\n' as u64);
        let zero = bits.wrapping_sub(ONES) & !bits & (ONES << 7);
        if zero != 0 {
            return Some(at + zero.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    data[at..].iter().position(|&b| b == b'\n').map(|tail| at + tail)
}

/// Appends `text` as the inside of a JSON string, escaped as Go's encoder does (`<`, `>`, `&` too); bytes that are not
/// UTF-8 become U+FFFD, one each. Answers how many bytes it made; the buffer must hold six times the text.
fn escape(out: &mut [u8], text: &[u8]) -> usize {
    let mut at = 0;
    let mut from = 0;
    while from < text.len() {
        let plain = plain_pieces(&mut out[at..], &text[from..]);
        (at, from) = (at + plain, from + plain);
        let Some(&byte) = text.get(from) else { break };
        if is_plain(byte) {
            out[at] = byte;
            at += 1;
            from += 1;
            continue;
        }
        if byte < 0x80 {
            at += escape_ascii(&mut out[at..], byte);
            from += 1;
            continue;
        }
        let length = sequence(&text[from..]);
        if length == 0 {
            out[at..at + 6].copy_from_slice(b"\\ufffd");
            at += 6;
            from += 1;
        } else if text[from..].starts_with(b"\xe2\x80\xa8") || text[from..].starts_with(b"\xe2\x80\xa9") {
            // The two line separators that JavaScript does not take in a string.
            out[at..at + 5].copy_from_slice(b"\\u202");
            out[at + 5] = b'8' + (text[from + 2] - 0xa8);
            at += 6;
            from += 3;
        } else {
            out[at..at + length].copy_from_slice(&text[from..from + length]);
            at += length;
            from += length;
        }
    }
    at
}

#[inline(always)]
fn is_plain(byte: u8) -> bool {
    (0x20..0x80).contains(&byte) & (byte != b'"') & (byte != b'\\') & (byte != b'<') & (byte != b'>') & (byte != b'&')
}

/// Copies the bytes that need no escape, in pieces that the compiler turns into vector instructions; answers how many.
#[inline(always)]
fn plain_pieces(out: &mut [u8], text: &[u8]) -> usize {
    const PIECE: usize = 16;
    let mut done = 0;
    for (to, from) in out.chunks_exact_mut(PIECE).zip(text.chunks_exact(PIECE)) {
        if !from.iter().fold(true, |all, &byte| all & is_plain(byte)) {
            break;
        }
        to.copy_from_slice(from);
        done += PIECE;
    }
    done
}

#[inline(always)]
fn escape_ascii(out: &mut [u8], byte: u8) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out[..4].copy_from_slice(b"\\u00");
            out[4] = HEX[usize::from(byte >> 4)];
            out[5] = HEX[usize::from(byte & 15)];
            return 6;
        }
    };
    out[..2].copy_from_slice(&[b'\\', short]);
    2
}

/// Length of the UTF-8 sequence at the beginning; 0 when there is none.
fn sequence(text: &[u8]) -> usize {
    let window = &text[..text.len().min(4)];
    match core::str::from_utf8(window) {
        Ok(valid) => valid.chars().next().map_or(0, char::len_utf8),
        Err(error) if error.valid_up_to() > 0 => {
            let valid = core::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or("");
            valid.chars().next().map_or(0, char::len_utf8)
        }
        Err(_) => 0,
    }
}
