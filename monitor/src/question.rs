//! Messages of the resolver: reads questions, writes and compares answers, and reads the file of a network's names.
//! This file is compiled twice: into the monitor, and into the doors of fuzzers.

use crate::wire::{NAMES_ENTRY, NAMES_MAGIC};

const TTL: u32 = 600;

/// The one question of a query.
pub struct Question {
    pub opcode: u8,
    name: [u8; 256],
    name_length: usize,
    pub kind: u16,
    /// Where the question ends.
    pub end: usize,
}

impl Question {
    pub fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }

    /// Reads a query of one question. The name is in small letters with dots, without the last dot.
    pub fn read(query: &[u8]) -> Option<Question> {
        let is_answer = *query.get(2)? & 0x80 != 0;
        if query.len() < 17 || is_answer || query[4..6] != [0, 1] {
            return None;
        }
        let mut question = Question { opcode: query[2] >> 3 & 15, name: [0; 256], name_length: 0, kind: 0, end: 0 };
        let mut at = 12;
        loop {
            let length = usize::from(*query.get(at)?);
            at += 1;
            match length {
                0 => break,
                // Compression has no place in a question.
                64.. => return None,
                _ => {}
            }
            let label = query.get(at..at + length)?;
            at += length;
            if question.name_length > 0 {
                *question.name.get_mut(question.name_length)? = b'.';
                question.name_length += 1;
            }
            let room = question.name.get_mut(question.name_length..question.name_length + length)?;
            room.copy_from_slice(label);
            room.make_ascii_lowercase();
            question.name_length += length;
        }
        let rest = query.get(at..at + 4)?;
        question.kind = u16::from_be_bytes([rest[0], rest[1]]);
        question.end = at + 4;
        Some(question)
    }
}

/// How much a message is like the answer to a question as it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    Same,
    /// Everything is the same except small and capital letters of the name.
    OtherSpelling,
    Other,
}

/// Compares number, kind and question; an attacker that guesses an answer must guess the spelling of the name, too.
pub fn likeness(asked: &[u8], answer: &[u8]) -> Likeness {
    let Some(question) = Question::read(asked) else { return Likeness::Other };
    let is_answer = answer.len() >= question.end
        && answer[..2] == asked[..2]
        && answer[2] & 0xf8 == 0x80 | asked[2] & 0x78
        && answer[4..6] == [0, 1];
    let (wanted, got) = (&asked[12..question.end], answer.get(12..question.end).unwrap_or(&[]));
    // The two numbers behind the name are not letters.
    let numbers = wanted.len() - 4;
    match is_answer && got.get(numbers..) == wanted.get(numbers..) {
        true if wanted == got => Likeness::Same,
        true if wanted[..numbers].eq_ignore_ascii_case(&got[..numbers]) => Likeness::OtherSpelling,
        _ => Likeness::Other,
    }
}

/// Bits for the letters of the longest name there is.
pub type Spelling = [u8; 32];

/// Spells the name of a question: a letter is a capital where its bit is one.
pub fn spell(query: &mut [u8], spelling: &Spelling) {
    let Some(question) = Question::read(query) else { return };
    // No length of a label is a letter.
    for (at, byte) in query[12..question.end - 4].iter_mut().enumerate() {
        let capital = spelling[at / 8 % spelling.len()] >> (at % 8) & 1 != 0;
        *byte = if capital { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
    }
}

/// The head of an answer and its question; answers its length.
pub fn head(out: &mut [u8], query: &[u8], question: &Question, code: u8) -> usize {
    out[..question.end].copy_from_slice(&query[..question.end]);
    let recursion = query[2] & 1;
    out[2] = 0x80 | (question.opcode << 3) | recursion;
    out[3] = 0x80 | code;
    out[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    question.end
}

/// Records behind the question.
pub struct Answer<'a> {
    out: &'a mut [u8],
    length: usize,
    count: u16,
    full: bool,
}

impl Answer<'_> {
    /// Begins an answer; `code` is its error, or 0.
    pub fn new<'a>(out: &'a mut [u8], query: &[u8], question: &Question, code: u8) -> Answer<'a> {
        let length = head(out, query, question, code);
        Answer { out, length, count: 0, full: false }
    }

    pub fn record(&mut self, kind: u16, data: &[u8]) {
        let end = self.length + 12 + data.len();
        let Some(room) = self.out.get_mut(self.length..end) else {
            self.full = true;
            return;
        };
        // The question's name, at byte 12.
        room[..2].copy_from_slice(&[0xc0, 12]);
        room[2..4].copy_from_slice(&kind.to_be_bytes());
        room[4..6].copy_from_slice(&[0, 1]);
        room[6..10].copy_from_slice(&TTL.to_be_bytes());
        room[10..12].copy_from_slice(&(data.len() as u16).to_be_bytes());
        room[12..].copy_from_slice(data);
        self.length = end;
        self.count += 1;
    }

    /// Completes the answer; gives its length.
    pub fn finish(self) -> usize {
        if self.full {
            self.out[2] |= 2;
        }
        self.out[6..8].copy_from_slice(&self.count.to_be_bytes());
        self.length
    }
}

/// The IPv4 address of `d.c.b.a.in-addr.arpa`.
pub fn reversed(name: &[u8]) -> Option<[u8; 4]> {
    let digits = name.strip_suffix(b".in-addr.arpa")?;
    let mut ip = [0u8; 4];
    let mut parts = digits.split(|&b| b == b'.');
    for byte in ip.iter_mut().rev() {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 3 || !part.iter().all(u8::is_ascii_digit) {
            return None;
        }
        *byte = u8::try_from(part.iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'))).ok()?;
    }
    parts.next().is_none().then_some(ip)
}

/// The IPv6 address of a name with 32 digits, the last one first, before `ip6.arpa`.
pub fn reversed6(name: &[u8]) -> Option<[u8; 16]> {
    let digits = name.strip_suffix(b".ip6.arpa")?;
    let mut ip = [0u8; 16];
    let mut parts = digits.split(|&b| b == b'.');
    for at in (0..32).rev() {
        let &[digit] = parts.next()? else { return None };
        let value = (digit as char).to_digit(16)? as u8;
        ip[at / 2] |= if at % 2 == 0 { value << 4 } else { value };
    }
    parts.next().is_none().then_some(ip)
}

/// `name.network` as labels.
pub fn encode_name(out: &mut [u8; 256], name: &[u8], network: &[u8]) -> Option<usize> {
    let mut at = 0;
    for label in name.split(|&b| b == b'.').chain(network.split(|&b| b == b'.')) {
        if label.is_empty() || label.len() > 63 || at + label.len() + 2 > out.len() {
            return None;
        }
        out[at] = label.len() as u8;
        out[at + 1..at + 1 + label.len()].copy_from_slice(label);
        at += 1 + label.len();
    }
    out[at] = 0;
    Some(at + 1)
}

/// A container that has a name on a network.
pub struct Entry<'a> {
    pub slot: u32,
    pub id: [u8; 8],
    pub v4: Option<[u8; 4]>,
    pub v6: Option<[u8; 16]>,
    /// The container's own name, not an alias.
    pub first: bool,
    pub name: &'a [u8],
}

/// The name of a network and its entries, of the file of the network's names: see [`NAMES_MAGIC`].
pub fn names(file: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = file.split_at_checked(5)?;
    (head[..4] == NAMES_MAGIC.to_le_bytes()).then_some(())?;
    rest.split_at_checked(usize::from(head[4]))
}

pub fn entries(mut rest: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    core::iter::from_fn(move || {
        let head = rest.get(..NAMES_ENTRY)?;
        let name = rest.get(NAMES_ENTRY..NAMES_ENTRY + usize::from(head[NAMES_ENTRY - 1]))?;
        rest = &rest[NAMES_ENTRY + name.len()..];
        let flags = head[NAMES_ENTRY - 2];
        let mut entry = Entry {
            slot: u32::from_le_bytes([head[0], head[1], head[2], head[3]]),
            id: [0; 8],
            v4: None,
            v6: None,
            first: flags & 4 != 0,
            name,
        };
        entry.id.copy_from_slice(&head[4..12]);
        if flags & 1 != 0 {
            entry.v4 = head[12..16].try_into().ok();
        }
        if flags & 2 != 0 {
            entry.v6 = head[16..32].try_into().ok();
        }
        Some(entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query with the number 0x1234 that wants recursion.
    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            query.push(label.len() as u8);
            query.extend_from_slice(label.as_bytes());
        }
        query.push(0);
        query.extend_from_slice(&kind.to_be_bytes());
        query.extend_from_slice(&1u16.to_be_bytes());
        query
    }

    fn answered(query: &[u8], records: &[&[u8]]) -> Vec<u8> {
        let question = Question::read(query).expect("a question");
        let mut out = [0; 512];
        let mut answer = Answer::new(&mut out, query, &question, 0);
        records.iter().for_each(|data| answer.record(1, data));
        let length = answer.finish();
        out[..length].to_vec()
    }

    #[test]
    fn a_question_is_read_with_its_name_in_small_letters() {
        let bytes = query("Db.Example", 28);
        let question = Question::read(&bytes).expect("a question");
        assert_eq!((question.name(), question.kind, question.opcode), (&b"db.example"[..], 28, 0));
        assert_eq!(question.end, bytes.len());
        assert_eq!(Question::read(&query("", 2)).expect("the root").name(), b"");
    }

    #[test]
    fn bytes_that_are_not_one_whole_question_are_not_read() {
        let good = query("db", 1);
        assert!(Question::read(&good[..good.len() - 1]).is_none());
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            Question::read(&bytes).is_none()
        };
        assert!(with(2, 0x81), "an answer");
        assert!(with(5, 2), "two questions");
        assert!(with(12, 0xc0), "a compressed name");
        assert!(with(12, 63), "a label beyond the end");
        assert!(Question::read(&query(&"abcdefghi.".repeat(26), 1)).is_none(), "a name of more than 256 bytes");
    }

    #[test]
    fn an_answer_to_another_question_is_not_taken() {
        let asked = query("db", 1);
        let answer = answered(&asked, &[&[10, 0, 0, 2]]);
        assert_eq!(likeness(&asked, &answer), Likeness::Same);
        assert_eq!(likeness(&query("dB", 1), &answer), Likeness::OtherSpelling);
        assert_eq!(likeness(&query("dc", 1), &answer), Likeness::Other);
        assert_eq!(likeness(&query("db", 28), &answer), Likeness::Other);
        assert_eq!(likeness(&asked, &asked), Likeness::Other, "a question is no answer");
        assert_eq!(likeness(&asked, &answer[..asked.len() - 1]), Likeness::Other);
        let mut numbered = answer;
        numbered[0] ^= 1;
        assert_eq!(likeness(&asked, &numbered), Likeness::Other);
    }

    #[test]
    fn a_spelling_changes_letters_of_the_name_alone() {
        let mut bytes = query("web-1.example", 1);
        spell(&mut bytes, &[0xff; 32]);
        assert_eq!(bytes, query("WEB-1.EXAMPLE", 1));
        spell(&mut bytes, &[0; 32]);
        assert_eq!(bytes, query("web-1.example", 1));
        // The bits begin with the length of the first label.
        spell(&mut bytes, &{
            let mut spelling = [0; 32];
            spelling[0] = 0b10;
            spelling
        });
        assert_eq!(bytes, query("Web-1.example", 1));
    }

    #[test]
    fn an_answer_that_does_not_fit_says_that_it_is_cut() {
        let asked = query("db", 1);
        let whole = answered(&asked, &[&[10, 0, 0, 2], &[10, 0, 0, 3]]);
        assert_eq!((whole[2] & 2, &whole[6..8]), (0, &[0, 2][..]));
        assert_eq!(&whole[whole.len() - 4..], &[10, 0, 0, 3]);
        let cut = answered(&asked, &[&[1; 300], &[2; 300]]);
        assert_eq!((cut[2] & 2, &cut[6..8]), (2, &[0, 1][..]));
    }

    #[test]
    fn addresses_are_read_from_reversed_names() {
        assert_eq!(reversed(b"2.0.17.172.in-addr.arpa"), Some([172, 17, 0, 2]));
        for name in [&b"2.0.17.in-addr.arpa"[..], b"1.2.0.17.172.in-addr.arpa", b"256.0.0.1.in-addr.arpa", b"a.b.c.d"] {
            assert_eq!(reversed(name), None);
        }
        let digits = "8.7.6.5.4.3.2.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2";
        let ip = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78];
        assert_eq!(reversed6(format!("{digits}.ip6.arpa").as_bytes()), Some(ip));
        assert_eq!(reversed6(format!("0.{digits}.ip6.arpa").as_bytes()), None);
        assert_eq!(reversed6(b"8.7.ip6.arpa"), None);
    }

    #[test]
    fn a_name_is_encoded_as_labels() {
        let mut out = [0; 256];
        assert_eq!(encode_name(&mut out, b"db", b"my.net"), Some(11));
        assert_eq!(&out[..11], b"\x02db\x02my\x03net\0");
        assert_eq!(encode_name(&mut out, b"", b"net"), None);
        assert_eq!(encode_name(&mut out, &[b'a'; 64], b"net"), None);
        assert_eq!(encode_name(&mut out, &b"abcdefghi.".repeat(26)[..259], b"net"), None);
    }

    #[test]
    fn a_file_of_names_gives_its_entries() {
        let mut entry = vec![7, 0, 0, 0];
        entry.extend_from_slice(b"containr");
        entry.extend_from_slice(&[10, 0, 0, 2]);
        entry.extend_from_slice(&[9; 16]);
        entry.extend_from_slice(&[1 | 4, 2]);
        entry.extend_from_slice(b"db");
        assert_eq!(entry.len(), NAMES_ENTRY + 2);
        let file = [&NAMES_MAGIC.to_le_bytes()[..], &[3], b"net", &entry, &entry[..NAMES_ENTRY]].concat();
        let (network, rest) = names(&file).expect("a file of names");
        assert_eq!(network, b"net");
        let all: Vec<Entry> = entries(rest).collect();
        assert_eq!(all.len(), 1, "an entry that is cut off is left out");
        let first = &all[0];
        assert_eq!((first.slot, &first.id, first.name), (7, b"containr", &b"db"[..]));
        assert_eq!((first.v4, first.v6, first.first), (Some([10, 0, 0, 2]), None, true));
        assert!(names(b"CNAM").is_none() && names(b"CNAX\0").is_none() && names(b"CNAM\x04net").is_none());
    }
}
