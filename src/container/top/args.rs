//! The arguments of ps.

use super::columns::Column;
use super::{failed, unsupported};
use crate::error::Result;

/// How parents and children are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Forest {
    /// They are not.
    #[default]
    None,
    /// By lines.
    Lines,
    /// By indentation.
    Indent,
}

/// What is shown.
pub(super) struct Format {
    pub(super) columns: Vec<Column>,
    pub(super) forest: Forest,
}

/// What the options ask for, before their columns are known.
#[derive(Default)]
struct Asked {
    /// The letters among `f`, `F`, `l`, `j`, `y` of the Unix kind.
    unix: String,
    /// The letter of the BSD kind: `u`, `l` or `j`.
    bsd: Option<char>,
    /// Some option without a dash was given: its defaults count.
    bsd_defaults: bool,
    own: Vec<Column>,
    /// `-O`: the list stands among default columns.
    among: bool,
    forest: Forest,
}

pub(super) fn parse(text: &str) -> Result<Format> {
    let mut asked = Asked::default();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if let Some(name) = word.strip_prefix("--") {
            asked.long(name, &mut words)?;
        } else if let Some(letters) = word.strip_prefix('-') {
            let before = words.clone();
            let unix = asked.unix_word(letters, &mut words);
            // As ps does: what is no Unix option may be a BSD one with a needless dash.
            if let Err(error) = unix {
                words = before;
                asked.bsd_word(letters, &mut words).map_err(|_| error)?;
            }
        } else {
            asked.bsd_word(word, &mut words)?;
        }
    }
    asked.finish()
}

impl Asked {
    fn long<'a>(&mut self, name: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<()> {
        match name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value))) {
            ("format", list) => self.list(list.or_else(|| words.next()), "--format"),
            ("forest", None) => {
                self.forest = Forest::Lines;
                Ok(())
            }
            (
                "sort" | "no-headers" | "no-heading" | "headers" | "cols" | "columns" | "width" | "rows" | "lines"
                | "pid" | "ppid" | "quick-pid" | "sid" | "tty" | "user" | "User" | "group" | "Group" | "deselect"
                | "cumulative" | "context" | "info" | "help" | "version",
                _,
            ) => Err(unsupported(&format!("the option --{name}"))),
            _ => Err(failed("ps: error: unknown gnu long option")),
        }
    }

    fn unix_word<'a>(&mut self, letters: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<()> {
        let mut asked = Asked { unix: self.unix.clone(), forest: self.forest, ..Asked::default() };
        for (at, letter) in letters.char_indices() {
            match letter {
                'e' | 'A' | 'a' | 'd' | 'w' => {}
                'f' | 'F' | 'l' | 'j' | 'y' => asked.unix.push(letter),
                'H' => asked.forest = Forest::Indent,
                'o' | 'O' => {
                    (self.unix, self.forest, self.among) = (asked.unix, asked.forest, self.among || letter == 'O');
                    let rest = &letters[at + 1..];
                    return self.list(Some(rest).filter(|rest| !rest.is_empty()).or_else(|| words.next()), "-o");
                }
                'C' | 'G' | 'g' | 'p' | 's' | 't' | 'U' | 'q' | 'N' | 'L' | 'T' | 'm' | 'M' | 'Z' | 'P' | 'c' | 'V'
                | 'n' => return Err(unsupported(&format!("the option -{letter}"))),
                'u' if !letters.contains('x') => return Err(unsupported("the option -u")),
                _ => return Err(failed("ps: error: unsupported SysV option")),
            }
        }
        (self.unix, self.forest) = (asked.unix, asked.forest);
        Ok(())
    }

    fn bsd_word<'a>(&mut self, letters: &str, words: &mut impl Iterator<Item = &'a str>) -> Result<()> {
        self.bsd_defaults = true;
        for (at, letter) in letters.char_indices() {
            match letter {
                'a' | 'x' | 'w' | 'g' => {}
                'f' => self.forest = Forest::Lines,
                'u' | 'l' | 'j' if self.bsd.is_none_or(|bsd| bsd == letter) => self.bsd = Some(letter),
                'u' | 'l' | 'j' => return Err(conflict()),
                'o' | 'O' => {
                    self.among |= letter == 'O';
                    let rest = &letters[at + 1..];
                    return self.list(Some(rest).filter(|rest| !rest.is_empty()).or_else(|| words.next()), "-o");
                }
                '0'..='9'
                | 'v'
                | 's'
                | 'X'
                | 'Z'
                | 'H'
                | 'm'
                | 'e'
                | 'c'
                | 'S'
                | 'n'
                | 'r'
                | 'T'
                | 't'
                | 'U'
                | 'p'
                | 'q'
                | 'k'
                | 'h'
                | 'L'
                | 'V'
                | 'N' => return Err(unsupported(&format!("the option {letter}"))),
                letter if !letter.is_ascii_alphabetic() => return Err(failed("ps: error: garbage option")),
                _ => return Err(failed("ps: error: unsupported option (BSD syntax)")),
            }
        }
        Ok(())
    }

    /// A list of columns: `name`, `name:width`, or at its end `name=heading`.
    fn list(&mut self, list: Option<&str>, option: &str) -> Result<()> {
        let Some(list) = list else {
            return Err(failed(format!("ps: error: format specification must follow {option}")));
        };
        let (names, heading) = list.split_once('=').map_or((list, None), |(names, heading)| (names, Some(heading)));
        let names = if heading.is_none() { names.strip_suffix(',').unwrap_or(names) } else { names };
        let first = self.own.len();
        for name in names.split(',') {
            if name.is_empty() {
                return Err(failed("ps: error: improper format list"));
            }
            let (name, width) = match name.split_once(':') {
                None => (name, None),
                Some((name, width)) => (name, Some(column_width(width)?)),
            };
            let column = Column::named(name, width)
                .ok_or_else(|| failed(format!("ps: error: unknown user-defined format specifier \"{name}\"")))?;
            self.own.push(column);
        }
        if let (Some(heading), Some(last)) = (heading, self.own[first..].last_mut()) {
            last.title = heading.to_owned();
        }
        Ok(())
    }

    fn finish(self) -> Result<Format> {
        let ready = !self.unix.is_empty() || self.bsd.is_some();
        if (self.bsd.is_some() && (!self.unix.is_empty() || !self.own.is_empty())) || (self.among && ready) {
            return Err(conflict());
        }
        if self.unix.contains('y') && !self.unix.contains('l') {
            return Err(failed("ps: error: modifier -y without format -l makes no sense"));
        }
        let columns = match (self.own.is_empty(), self.among) {
            // A list of one's own wins over -f and its like, as in `-ef -o pid`.
            (false, false) => self.own,
            (false, true) => {
                let mut columns = standard("pid");
                columns.extend(self.own);
                columns.extend(standard("state tname time command"));
                columns
            }
            _ if self.bsd_defaults && self.unix.is_empty() => standard(bsd(self.bsd)),
            _ => unix(&self.unix),
        };
        Ok(Format { columns, forest: self.forest })
    }
}

fn conflict() -> crate::error::Error {
    failed("ps: error: conflicting format options")
}

fn column_width(text: &str) -> Result<usize> {
    text.parse()
        .ok()
        .filter(|width| *width > 0)
        .ok_or_else(|| failed("ps: error: column widths must be unsigned decimal numbers"))
}

fn bsd(letter: Option<char>) -> &'static str {
    match letter {
        Some('u') => "user pid %cpu %mem vsz rss tname stat start_time bsdtime command",
        Some('l') => "f uid pid ppid priority ni vsz rss wchan stat tname bsdtime command",
        Some('j') => "ppid pid pgid sid tname tpgid stat uid bsdtime command",
        _ => "pid tname stat bsdtime command",
    }
}

/// The columns of `-f`, `-F`, `-l`, `-j` and what of them goes together.
fn unix(letters: &str) -> Vec<Column> {
    let has = |wanted: &str| letters.contains(|letter| wanted.contains(letter));
    let (full, long) = (has("fF"), has("l"));
    let parts = [
        (long && !has("y"), "f"),
        (long, "s"),
        (full, "uid_name"),
        (long && !full, "uid"),
        (true, "pid"),
        (full || long, "ppid"),
        (has("j"), "pgid sid"),
        (full || long, "c"),
        (long, "opri ni"),
        (long && has("y"), "rss sz"),
        (long && !has("y"), "addr sz"),
        (has("F") && !long, "sz rss"),
        (has("F"), "psr"),
        (long, "wchan"),
        (full, "stime"),
        (true, "tname time"),
        (full, "cmd"),
        (!full, "ucmd"),
    ];
    parts.iter().filter(|(wanted, _)| *wanted).flat_map(|(_, names)| standard(names)).collect()
}

fn standard(names: &str) -> Vec<Column> {
    names.split(' ').filter_map(|name| Column::named(name, None)).collect()
}
