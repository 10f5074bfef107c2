//! The arguments of ps.

use super::columns::{self, Column, Known};
use super::select::{Group, Select};
use super::{failed, no_pid_field, unsupported};
use crate::error::Result;

/// How parents and children are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Forest {
    /// Rows are not arranged as a tree.
    #[default]
    None,
    /// By lines.
    Lines,
    /// By indentation.
    Indent,
}

/// The columns and rows that are shown.
pub(super) struct Format {
    pub(super) columns: Vec<Column>,
    pub(super) forest: Forest,
    pub(super) select: Select,
    /// The columns by which rows are sorted, and whether downwards; the first one counts most.
    pub(super) sort: Vec<(Column, bool)>,
    /// One row for each thread.
    pub(super) threads: bool,
    /// BSD `e`: the environment behind the command.
    pub(super) environment: bool,
}

/// The options as given, before their columns are known.
#[derive(Clone, Default)]
struct PsOptions {
    /// The letters among `f`, `F`, `l`, `j`, `y`, `c`, `P`, `L`, `T`, `M` of the Unix kind.
    unix: String,
    /// The letter of the BSD kind: `u`, `l`, `j`, `s`, `v` or `X`.
    bsd: Option<char>,
    /// An option without a dash was given: the BSD defaults apply.
    bsd_defaults: bool,
    own: Vec<Column>,
    /// `-O`: the list stands among default columns.
    among: bool,
    forest: Forest,
    select: Select,
    sort: Vec<(Column, bool)>,
    /// BSD `H`: threads without a column for them.
    threads: bool,
    environment: bool,
    /// BSD `c`: the name in place of the command line.
    names_only: bool,
    no_headers: bool,
}

pub(super) fn parse(text: &str) -> Result<Format> {
    let mut asked = PsOptions::default();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if let Some(name) = word.strip_prefix("--") {
            asked.long(name, &mut words)?;
        } else if let Some(letters) = word.strip_prefix('-') {
            let before = (words.clone(), asked.clone());
            let unix = asked.unix_word(letters, &mut words);
            // Like ps: an unknown Unix option may be a BSD option with a superfluous dash.
            if let Err(error) = unix {
                (words, asked) = before;
                asked.bsd_word(letters, &mut words).map_err(|_| error)?;
            }
        } else if word.starts_with(|first: char| first.is_ascii_digit()) {
            asked.bsd_defaults = true;
            asked.select.add(Group::Pids, word)?;
        } else {
            asked.bsd_word(word, &mut words)?;
        }
    }
    asked.finish()
}

/// The value of a letter: the rest of its word, or else the next word.
fn value_of<'a>(letters: &'a str, at: usize, words: &mut impl Iterator<Item = &'a str>) -> Option<&'a str> {
    Some(&letters[at + 1..]).filter(|rest| !rest.is_empty()).or_else(|| words.next())
}

fn needed<'a>(value: Option<&'a str>, what: &str, option: &str) -> Result<&'a str> {
    value.filter(|value| !value.is_empty()).ok_or_else(|| failed(format!("ps: error: {what} must follow {option}")))
}

impl PsOptions {
    fn long<'a>(&mut self, name: &'a str, words: &mut impl Iterator<Item = &'a str>) -> Result<()> {
        let (name, value) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
        let option = format!("--{name}");
        match (name, value) {
            ("format", list) => self.list(list.or_else(|| words.next()), "--format"),
            ("sort", keys) => {
                let keys = keys.or_else(|| words.next());
                self.sort(needed(keys, "long sort specification", &option)?)
            }
            ("pid" | "ppid" | "user" | "User" | "group" | "Group" | "sid", list) => {
                let group = match name {
                    "pid" => Group::Pids,
                    "ppid" => Group::Parents,
                    "user" => Group::Users,
                    "User" => Group::RealUsers,
                    "group" => Group::Groups,
                    "Group" => Group::RealGroups,
                    _ => Group::Sessions,
                };
                let list = needed(list.or_else(|| words.next()), group.what(), &option)?;
                self.select.add(group, list)
            }
            ("forest", None) => self.no(|asked| asked.forest = Forest::Lines),
            ("deselect", None) => self.no(|asked| asked.select.negated = true),
            ("no-headers" | "no-heading" | "noheaders" | "noheading" | "no-headings", None) => {
                self.no(|asked| asked.no_headers = true)
            }
            ("context", None) => self.no(|asked| asked.unix.push('M')),
            (
                "headers" | "heading" | "cols" | "columns" | "width" | "rows" | "lines" | "quick-pid" | "tty"
                | "cumulative" | "info" | "help" | "version" | "signames" | "delimiter",
                _,
            ) => Err(unsupported(&format!("the option --{name}"))),
            _ => Err(failed("ps: error: unknown gnu long option")),
        }
    }

    /// An option without a value.
    fn no(&mut self, set: impl FnOnce(&mut PsOptions)) -> Result<()> {
        set(self);
        Ok(())
    }

    fn unix_word<'a>(&mut self, letters: &'a str, words: &mut impl Iterator<Item = &'a str>) -> Result<()> {
        for (at, letter) in letters.char_indices() {
            let group = match letter {
                'e' | 'A' => {
                    self.select.all = true;
                    continue;
                }
                // A client only sees the container's processes.
                'a' | 'd' | 'w' => continue,
                'f' | 'F' | 'l' | 'j' | 'y' | 'c' | 'P' | 'L' | 'T' | 'M' => {
                    self.unix.push(letter);
                    continue;
                }
                'Z' => {
                    self.unix.push('M');
                    continue;
                }
                'H' => {
                    self.forest = Forest::Indent;
                    continue;
                }
                'N' => {
                    self.select.negated = true;
                    continue;
                }
                'o' | 'O' => {
                    self.among |= letter == 'O';
                    return self.list(value_of(letters, at, words), "-o");
                }
                'u' if letters.contains('x') => return Err(failed("ps: error: unsupported SysV option")),
                'p' => Group::Pids,
                'C' => Group::Names,
                'u' => Group::Users,
                'U' => Group::RealUsers,
                'G' => Group::RealGroups,
                'g' | 's' => Group::Sessions,
                't' | 'q' | 'm' | 'V' | 'n' => return Err(unsupported(&format!("the option -{letter}"))),
                _ => return Err(failed("ps: error: unsupported SysV option")),
            };
            let option = format!("-{letter}");
            let list = needed(value_of(letters, at, words), group.what(), &option)?;
            return self.select.add(group, list);
        }
        Ok(())
    }

    fn bsd_word<'a>(&mut self, letters: &'a str, words: &mut impl Iterator<Item = &'a str>) -> Result<()> {
        self.bsd_defaults = true;
        for (at, letter) in letters.char_indices() {
            match letter {
                'a' | 'x' => self.select.all = true,
                'w' | 'g' => {}
                'f' => self.forest = Forest::Lines,
                'h' => self.no_headers = true,
                'e' => self.environment = true,
                'c' => self.names_only = true,
                'H' => self.threads = true,
                'Z' => self.unix.push('M'),
                'u' | 'l' | 'j' | 's' | 'v' | 'X' if self.bsd.is_none_or(|bsd| bsd == letter) => {
                    self.bsd = Some(letter);
                }
                'u' | 'l' | 'j' | 's' | 'v' | 'X' => return Err(conflict()),
                'o' | 'O' => {
                    self.among |= letter == 'O';
                    return self.list(value_of(letters, at, words), "-o");
                }
                'k' => return self.sort(needed(value_of(letters, at, words), "long sort specification", "'k'")?),
                'p' | 'U' => {
                    let group = if letter == 'p' { Group::Pids } else { Group::Users };
                    let list = needed(value_of(letters, at, words), group.what(), &letter.to_string())?;
                    return self.select.add(group, list);
                }
                '0'..='9' | 'm' | 'S' | 'n' | 'r' | 'T' | 't' | 'q' | 'L' | 'V' | 'N' => {
                    return Err(unsupported(&format!("the option {letter}")));
                }
                letter if !letter.is_ascii_alphabetic() => return Err(failed("ps: error: garbage option")),
                _ => return Err(failed("ps: error: unsupported option (BSD syntax)")),
            }
        }
        Ok(())
    }

    /// Names of columns, each behind `+` or `-`.
    fn sort(&mut self, keys: &str) -> Result<()> {
        for key in keys.split(',') {
            let down = key.starts_with('-');
            let name = key.strip_prefix(['+', '-']).unwrap_or(key);
            match columns::known(name, None) {
                Known::Column(column) => self.sort.push((column, down)),
                Known::NotBuilt => return Err(unsupported(&format!("sorting by {name}"))),
                Known::No => return Err(failed("ps: error: unknown sort specifier")),
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
            match columns::known(name, width) {
                Known::Column(column) => self.own.push(column),
                Known::NotBuilt => return Err(unsupported(&format!("the column {name}"))),
                Known::No => {
                    let text = format!("ps: error: unknown user-defined format specifier \"{name}\"");
                    return Err(failed(text));
                }
            }
        }
        if let (Some(heading), Some(last)) = (heading, self.own[first..].last_mut()) {
            last.title = heading.to_owned();
        }
        Ok(())
    }

    fn finish(self) -> Result<Format> {
        let has = |wanted: &str| self.unix.contains(|letter| wanted.contains(letter));
        let ready = has("fFljy") || self.bsd.is_some();
        let own = !self.own.is_empty();
        if (self.bsd.is_some() && (has("fFljy") || own)) || (self.among && ready) || (own && has("Fly")) {
            return Err(conflict());
        }
        if own && has("jP") {
            return Err(failed("ps: error: can not use output modifiers with user-defined output"));
        }
        if has("y") && !has("l") {
            return Err(failed("ps: error: modifier -y without format -l makes no sense"));
        }
        if has("L") && has("T") {
            return Err(failed("ps: error: thread flags conflict; can't use both -L and -T"));
        }
        let threads = self.threads || has("LT");
        if threads && self.forest != Forest::None {
            return Err(failed("ps: error: thread display conflicts with forest display"));
        }
        // Rows are recognised by the heading.
        if self.no_headers {
            return Err(no_pid_field());
        }
        let mut columns = match (self.own.is_empty(), self.among) {
            // An explicit list overrides -f and similar options, as in `-ef -o pid`.
            (false, false) => self.own,
            (false, true) => {
                let mut columns = standard("pid");
                columns.extend(self.own);
                columns.extend(standard("state tname time command"));
                columns
            }
            _ => {
                let bsd = self.bsd_defaults && !has("fFljy");
                let mut names = if bsd { bsd_names(self.bsd) } else { unix_names(&self.unix, self.bsd_defaults) };
                add_modifiers(&mut names, &self.unix, bsd);
                names.into_iter().flat_map(standard).collect()
            }
        };
        if self.names_only {
            columns.iter_mut().for_each(Column::name_only);
        }
        Ok(Format {
            columns,
            forest: self.forest,
            select: self.select,
            sort: self.sort,
            threads,
            environment: self.environment,
        })
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

fn bsd_names(letter: Option<char>) -> Vec<&'static str> {
    let names = match letter {
        Some('u') => "user pid %cpu %mem vsz rss tname stat start_time bsdtime command",
        Some('l') => "f uid pid ppid priority ni vsz rss wchan stat tname bsdtime command",
        Some('j') => "ppid pid pgid sid tname tpgid stat uid bsdtime command",
        Some('s') => "uid pid pending blocked ignored caught stat tname bsdtime command",
        Some('v') => "pid tname stat bsdtime maj_flt trs drs rss %mem command",
        Some('X') => "pid stackp esp eip tmout alarm stat tname bsdtime command",
        _ => "pid tname stat bsdtime command",
    };
    names.split(' ').collect()
}

/// The columns of `-f`, `-F`, `-l`, `-j` and their combinations. With a BSD option beside them the state is shown, the
/// time is BSD's, and the command is not cut.
fn unix_names(letters: &str, bsd: bool) -> Vec<&'static str> {
    let has = |wanted: &str| letters.contains(|letter| wanted.contains(letter));
    let (full, long) = (has("fF"), has("l"));
    let parts = [
        (long && !has("y"), "f"),
        (long, "s"),
        (full, "uid_name"),
        (long && !full, "uid"),
        (true, "pid"),
        (full || long, "ppid"),
        (has("j"), "pgid"),
        (has("j"), "sid"),
        (full || long, "c"),
        (long, "opri"),
        (long, "ni"),
        (long && has("y"), "rss"),
        (long && has("y"), "sz"),
        (long && !has("y"), "addr"),
        (long && !has("y"), "sz"),
        (has("F") && !long, "sz"),
        (has("F") && !long, "rss"),
        (has("F"), "psr"),
        (long, "wchan"),
        (full, "stime"),
        (true, "tname"),
        (bsd && !long, "stat"),
        (true, if bsd { "bsdtime" } else { "time" }),
        (full || bsd && long, "cmd"),
        (bsd && !full && !long, "command"),
        (!full && !bsd, "ucmd"),
    ];
    parts.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| *name).collect()
}

/// Adds the columns of `-c`, `-P`, `-L`, `-T` and `-M`, or replaces columns by them.
fn add_modifiers(names: &mut Vec<&'static str>, letters: &str, bsd: bool) {
    let place = |names: &[&str], wanted: &[&str]| names.iter().rposition(|name| wanted.contains(name));
    let ids = ["pid", "ppid", "pgid", "sid"];
    if letters.contains('c') && !names.contains(&"%cpu") {
        names.retain(|name| !["c", "opri", "priority", "ni"].contains(name));
        let at = place(names, &ids).map_or(0, |at| at + 1);
        names.splice(at..at, ["cls", "pri"]);
    }
    if letters.contains('P') && !names.contains(&"psr") && !names.contains(&"%cpu") {
        let at = place(names, &ids).map_or(0, |at| at + 1);
        names.insert(at, "psr");
    }
    if letters.contains('L') {
        let at = place(names, &ids).map_or(0, |at| at + 1);
        names.insert(at, "lwp");
        let beside: &[&str] = if bsd { &["%cpu"] } else { &["c"] };
        if (bsd || letters.contains(['f', 'F']))
            && let Some(at) = place(names, beside)
        {
            names.insert(at + 1, "nlwp");
        }
    }
    if letters.contains('T') {
        let at = names.iter().position(|name| *name == "pid").map_or(0, |at| at + 1);
        names.insert(at, "spid");
    }
    if letters.contains('M') {
        names.insert(0, "label");
    }
}

fn standard(names: &str) -> Vec<Column> {
    names.split(' ').filter_map(|name| Column::named(name, None)).collect()
}
