//! RELP: a protocol for syslog messages in which the receiver answers each message.
//!
//! ```text
//! NUMBER SP COMMAND SP LENGTH [SP DATA] LF
//! ```

use super::{Link, PATIENCE, Problem};
use crate::cursor::Fault;
use crate::drivers::Frames;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// So many messages may be without an answer.
const WINDOW: usize = 1024;
/// The longest answer.
const MOST: usize = 64 << 10;
/// Numbers end at 999,999,999: a connection with greater ones than this is left for a new one.
const LAST: u32 = 900_000_000;
const OFFER: &str = "relp_version=0\nrelp_software=coracle\ncommands=syslog";

/// Whether the numbers of a connection's messages come to their end.
pub(super) fn is_at_last_number(link: &Link) -> bool {
    link.number > LAST
}

/// Sends messages and waits for their answers; returns how many of them the receiver has.
pub(crate) fn send_relp(link: &mut Link, frames: &Frames, stop: BorrowedFd<'_>) -> (usize, Result<(), Problem>) {
    if link.number == 0
        && let Err(problem) = open_session(link, stop)
    {
        return (0, Err(problem));
    }
    let (mut from, mut done) = (0, 0);
    for window in frames.frames.chunks(WINDOW) {
        let (mut block, first) = (Vec::new(), link.number + 1);
        for frame in window {
            link.number += 1;
            push(&mut block, link.number, "syslog", &frames.bytes[from..frame.end]);
            from = frame.end;
        }
        if let Err(problem) = link.send_all(&block, None, stop) {
            return (done, Err(problem));
        }
        for number in first..=link.number {
            if let Err(problem) = await_response(link, number, stop) {
                return (done, Err(problem));
            }
            done += 1;
        }
    }
    (done, Ok(()))
}

fn open_session(link: &mut Link, stop: BorrowedFd<'_>) -> Result<(), Problem> {
    let mut block = Vec::new();
    push(&mut block, 1, "open", OFFER.as_bytes());
    link.send_all(&block, None, stop)?;
    // Without a session there is nothing for any log.
    await_response(link, 1, stop).map_err(Problem::of_all)?;
    link.number = 1;
    Ok(())
}

/// Waits for the answer to a message.
fn await_response(link: &mut Link, number: u32, stop: BorrowedFd<'_>) -> Result<(), Problem> {
    let failed = |errno| Problem::Failed(Fault::Refused, errno);
    let until = Instant::now() + PATIENCE;
    loop {
        match response(&link.answers) {
            Ok(None) if link.answers.len() > MOST => return Err(failed(libc::EBADMSG)),
            Ok(None) => link.more_answers(until, stop)?,
            Ok(Some(found)) => {
                link.answers.drain(..found.length);
                return match found.status {
                    _ if found.number != number => Err(failed(libc::EBADMSG)),
                    200 => Ok(()),
                    status => Err(Problem::OfOne(Fault::Status, i32::from(status))),
                };
            }
            Err(()) => return Err(failed(libc::EBADMSG)),
        }
    }
}

fn push(out: &mut Vec<u8>, number: u32, command: &str, data: &[u8]) {
    // A write into memory does not fail.
    let _ = write!(out, "{number} {command} {}", data.len());
    if !data.is_empty() {
        out.push(b' ');
        out.extend_from_slice(data);
    }
    out.push(b'\n');
}

/// An answer, and its bytes.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    number: u32,
    status: u16,
    length: usize,
}

/// The answer at the start of `bytes`; `None`: more bytes are needed. Errors: something else came, such as the end of
/// the session (`serverclose`).
fn response(bytes: &[u8]) -> Result<Option<Response>, ()> {
    let (mut at, mut words) = (0, [""; 3]);
    for word in &mut words {
        let rest = &bytes[at..];
        let Some(end) = rest.iter().take(32).position(|byte| matches!(byte, b' ' | b'\n')) else {
            return if rest.len() < 32 { Ok(None) } else { Err(()) };
        };
        *word = std::str::from_utf8(&rest[..end]).map_err(|_| ())?;
        at += end + 1;
    }
    let [number, command, length] = words;
    let length: usize = length.parse().ok().filter(|length| *length <= MOST).ok_or(())?;
    // Without data the newline stands in the place of the space.
    if command != "rsp" || length == 0 {
        return Err(());
    }
    let Some(data) = bytes.get(at..=at + length) else { return Ok(None) };
    if data[length] != b'\n' {
        return Err(());
    }
    let status = std::str::from_utf8(data.get(..3).ok_or(())?).map_err(|_| ())?.parse().map_err(|_| ())?;
    Ok(Some(Response { number: number.parse().map_err(|_| ())?, status, length: at + length + 1 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_relp_are_read_whatever_piece_of_them_is_there() {
        for (text, number, status) in [("1 rsp 12 200 OK\nabc=d\n", 1, 200), ("77 rsp 6 500 no\n", 77, 500)] {
            for end in 0..text.len() {
                assert_eq!(response(&text.as_bytes()[..end]), Ok(None), "{text} {end}");
            }
            let whole = Response { number, status, length: text.len() };
            assert_eq!(response(format!("{text}2 rsp").as_bytes()), Ok(Some(whole)));
        }
        for other in ["0 serverclose 0\n", "1 rsp x \n", "1 rsp 99999999 200", "1 rsp 0\n", "x rsp 6 200 OK\n"] {
            assert_eq!(response(other.as_bytes()), Err(()), "{other}");
        }
        assert_eq!(response(&[b'x'; 40]), Err(()));
    }

    #[test]
    fn a_message_is_a_frame() {
        let mut out = Vec::new();
        push(&mut out, 2, "syslog", b"a b");
        push(&mut out, 3, "close", b"");
        assert_eq!(out, b"2 syslog 3 a b\n3 close 0\n");
    }
}
