//! Variables and quotes: `$x`, `${x}`, `${x:-y}`, `${x:+y}`, `${x#pattern}`, `'as it is'`, `"with $x"`, escapes.

use super::budget::Budget;
use super::go_format::quoted;
use super::pattern::{Length, Pattern};
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// Nesting of `${a:-${b:-...}}`.
const MAX_DEPTH: u32 = 100;

/// Expands words with the values that a look-up knows.
pub(crate) struct Expander<'a> {
    /// The character that takes the next one as it is.
    pub(crate) escape: char,
    /// The value of a name.
    pub(crate) look_up: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) budget: &'a Budget,
}

impl Expander<'_> {
    /// One word of a word: quotes are taken away, variables put in.
    pub(crate) fn word(&self, text: &str) -> Result<String> {
        self.run(text).map(|(word, _)| word)
    }

    /// The words that a word becomes: blanks that come from variables, or stand bare, separate.
    pub(crate) fn words(&self, text: &str) -> Result<Vec<String>> {
        self.run(text).map(|(_, words)| words)
    }

    fn run(&self, text: &str) -> Result<(String, Vec<String>)> {
        let mut reader = Reader { chars: text.chars().peekable(), expander: self, depth: 0, raw: false };
        let read = reader.until(None);
        read.map_err(|error| error.context(format_args!("failed to process {}", quoted(&shortened(text)))))
    }
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    expander: &'a Expander<'a>,
    depth: u32,
    /// Escapes stay in the text.
    raw: bool,
}

/// The text, and the same as words.
#[derive(Default)]
struct Out {
    text: String,
    words: Vec<String>,
    word: String,
    in_word: bool,
}

impl Out {
    fn bare(&mut self, c: char) {
        if !c.is_whitespace() {
            self.word.push(c);
            self.in_word = true;
        } else if self.in_word && !self.word.is_empty() {
            self.words.push(std::mem::take(&mut self.word));
            self.in_word = false;
        }
    }
    fn raw(&mut self, text: &str) {
        self.word.push_str(text);
        self.in_word = true;
    }
    fn end(mut self) -> (String, Vec<String>) {
        if !self.word.is_empty() {
            self.words.push(self.word);
        }
        (self.text, self.words)
    }
}

impl Reader<'_> {
    /// Reads to the end, or to `stop`, which is taken.
    fn until(&mut self, stop: Option<char>) -> Result<(String, Vec<String>)> {
        let mut out = Out::default();
        while let Some(&c) = self.chars.peek() {
            if Some(c) == stop {
                self.chars.next();
                return Ok(out.end());
            }
            self.chars.next();
            match c {
                '\'' | '"' => {
                    let text = if c == '"' { self.double()? } else { self.single()? };
                    out.text.push_str(&text);
                    out.raw(&text);
                }
                '$' => {
                    let value = self.dollar()?;
                    out.text.push_str(&value);
                    value.chars().for_each(|c| out.bare(c));
                }
                c if c == self.expander.escape => {
                    // At the very end it means nothing.
                    let Some(next) = self.chars.next() else { break };
                    if self.raw {
                        out.text.push(c);
                    }
                    out.text.push(next);
                    out.raw(next.encode_utf8(&mut [0; 4]));
                }
                c => {
                    out.text.push(c);
                    out.bare(c);
                }
            }
        }
        match stop {
            None => Ok(out.end()),
            Some(stop) => Err(Error::invalid(format!("unexpected end of statement while looking for matching {stop}"))),
        }
    }

    fn single(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some('\'') => return Ok(text),
                Some(c) => text.push(c),
                None => return Err(unclosed("single-quote")),
            }
        }
    }

    fn double(&mut self) -> Result<String> {
        let escape = self.expander.escape;
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some('"') => return Ok(text),
                Some('$') => text.push_str(&self.dollar()?),
                Some(c) if c == escape => match self.chars.peek() {
                    None => {}
                    Some(&next) if next == '"' || next == '$' || next == escape => {
                        self.chars.next();
                        text.push(next);
                    }
                    Some(_) => text.push(c),
                },
                Some(c) => text.push(c),
                None => return Err(unclosed("double-quote")),
            }
        }
    }

    /// Expands the text that follows a dollar.
    fn dollar(&mut self) -> Result<String> {
        if self.chars.peek() != Some(&'{') {
            let name = self.name();
            return if name.is_empty() { Ok("$".into()) } else { self.value(&name) };
        }
        self.chars.next();
        match self.chars.peek() {
            None => return Err(Error::invalid("syntax error: missing '}'")),
            Some('{' | '}' | ':') => return Err(Error::invalid("syntax error: bad substitution")),
            Some(_) => {}
        }
        let name = self.name();
        match self.chars.next() {
            Some('}') => self.value(&name),
            Some(':') => {
                let modifier = self.chars.next();
                self.modified(&name, modifier, true)
            }
            Some(modifier @ ('?' | '-' | '+')) => self.modified(&name, Some(modifier), false),
            Some(side @ ('#' | '%')) => self.cut(&name, side),
            Some('/') => self.replaced(&name),
            // The shell knows more of them; docker's builders do not.
            _ => Err(Error::invalid("missing ':' in substitution")),
        }
    }

    /// Expands the text that follows `${name` and its modifier; `or_empty`: nothing is as good as empty.
    fn modified(&mut self, name: &str, modifier: Option<char>, or_empty: bool) -> Result<String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::invalid(format!("substitutions are nested more than {MAX_DEPTH} deep")));
        }
        let other = self.until(Some('}'));
        self.depth -= 1;
        let other = match other {
            Ok((text, _)) => text,
            Err(_) if self.chars.peek().is_none() => return Err(Error::invalid("syntax error: missing '}'")),
            Err(error) => return Err(error),
        };
        let value = self.known(name)?.filter(|value| !or_empty || !value.is_empty());
        match (modifier, value) {
            (Some('+'), Some(_)) | (Some('-'), None) => Ok(other),
            (Some('-' | '?'), Some(value)) => self.expander.budget.take(value),
            (Some('+'), None) => Ok(String::new()),
            (Some('?'), None) => {
                let or_empty = if or_empty { "empty" } else { "unset" };
                let why = if other.is_empty() { format!("is not allowed to be {or_empty}") } else { other };
                Err(Error::invalid(format!("{name}: {why}")))
            }
            (modifier, _) => Err(unsupported(&modifier.map(String::from).unwrap_or_default())),
        }
    }

    /// Expands the text that follows `${name#` or `${name%`.
    fn cut(&mut self, name: &str, side: char) -> Result<String> {
        let length = match self.chars.next_if_eq(&side) {
            Some(_) => Length::Longest,
            None => Length::Shortest,
        };
        let pattern = Pattern::read(&self.raw_until('}')?)?;
        let (value, budget) = (self.known(name)?.unwrap_or_default(), self.expander.budget);
        let left = match side {
            '#' => pattern.without_beginning(&value, length, budget),
            _ => pattern.without_end(&value, length, budget),
        };
        self.expander.budget.take(left?)
    }

    /// Expands the text that follows `${name/`.
    fn replaced(&mut self, name: &str) -> Result<String> {
        let all = self.chars.next_if_eq(&'/').is_some();
        let pattern = Pattern::read(&self.raw_until('/')?)?;
        let other = self.raw_until('}')?;
        let (value, budget) = (self.known(name)?.unwrap_or_default(), self.expander.budget);
        budget.take(pattern.replaced(&value, &other, all, budget)?)
    }

    /// A part of a substitution, in which escapes stay as they are.
    fn raw_until(&mut self, stop: char) -> Result<String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::invalid(format!("substitutions are nested more than {MAX_DEPTH} deep")));
        }
        let was = std::mem::replace(&mut self.raw, true);
        let read = self.until(Some(stop));
        self.raw = was;
        self.depth -= 1;
        match read {
            Ok((text, _)) => Ok(text),
            Err(_) if self.chars.peek().is_none() => Err(Error::invalid(format!("syntax error: missing '{stop}'"))),
            Err(error) => Err(error),
        }
    }

    /// A name: letters, digits and `_`; one that begins with a digit is of digits alone; a parameter of the shell's is
    /// one character.
    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(&c) = self.chars.peek() {
            if name.is_empty() && matches!(c, '@' | '*' | '#' | '?' | '-' | '$' | '!' | '0') {
                self.chars.next();
                return c.into();
            }
            if name.starts_with(char::is_numeric) && !c.is_numeric() {
                break;
            }
            if !c.is_alphanumeric() && c != '_' {
                break;
            }
            self.chars.next();
            name.push(c);
        }
        name
    }

    /// The value of a name. A copy of it is work, also where little of it is left in the end.
    fn known(&self, name: &str) -> Result<Option<String>> {
        self.expander.budget.look_up()?;
        let value = (self.expander.look_up)(name);
        self.expander.budget.work(value.as_ref().map_or(0, String::len))?;
        Ok(value)
    }

    fn value(&self, name: &str) -> Result<String> {
        self.expander.budget.look_up()?;
        self.expander.budget.take((self.expander.look_up)(name).unwrap_or_default())
    }
}

/// A text for messages.
fn shortened(text: &str) -> Cow<'_, str> {
    const MOST: usize = 1000;
    match text.char_indices().nth(MOST) {
        None => text.into(),
        Some((at, _)) => format!("{}...", &text[..at]).into(),
    }
}

fn unsupported(modifier: &str) -> Error {
    Error::invalid(format!("unsupported modifier ({modifier}) in substitution"))
}

fn unclosed(what: &str) -> Error {
    Error::invalid(format!("unexpected end of statement while looking for matching {what}"))
}

/// Words apart by blanks that stand in no quotes; quotes and escapes stay as they are.
pub(crate) fn split_words(text: &str, escape: char) -> Vec<String> {
    let (mut words, mut word, mut quote, mut blank_ok) = (Vec::new(), String::new(), None, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match quote {
            None if c.is_whitespace() => {
                if blank_ok || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                blank_ok = false;
                continue;
            }
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                blank_ok = true;
            }
            Some(open) if open == c => quote = None,
            _ => {}
        }
        // In single quotes nothing is escaped; at the very end an escape means nothing.
        if c == escape && quote != Some('\'') {
            let Some(next) = chars.next() else { break };
            word.push(c);
            word.push(next);
            continue;
        }
        word.push(c);
    }
    if blank_ok || !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buildfile::budget::{MAX_VALUES, check_all};
    use crate::error::Cause;

    fn expander() -> Expander<'static> {
        Expander {
            budget: Box::leak(Box::new(Budget::new())),
            escape: '\\',
            look_up: &|name| match name {
                "x" => Some("one".into()),
                "two" => Some("a b".into()),
                "1" => Some("digit".into()),
                "empty" => Some(String::new()),
                _ => None,
            },
        }
    }

    #[test]
    fn every_form() {
        for (text, want) in [
            ("$x", "one"),
            ("${x}y", "oney"),
            ("$xy", ""),
            ("$x-y", "one-y"),
            ("$12", ""),
            ("$1a", "digita"),
            ("$01", "1"),
            ("$$x", "x"),
            ("${@}", ""),
            ("${no:-d}", "d"),
            ("${empty:-d}", "d"),
            ("${x:-d}", "one"),
            ("${x:+d}", "d"),
            ("${no:+d}", ""),
            ("${x?y}${x:?y}", "oneone"),
            ("${no:-$x}", "one"),
            ("${no:-${empty:-deep}}", "deep"),
            ("\\$x", "$x"),
            ("'$x'", "$x"),
            ("\"$x 'q'\"", "one 'q'"),
            ("\"\\$x \\\" \\a\"", "$x \" \\a"),
            ("a\\ b", "a b"),
            ("$", "$"),
            ("$ a", "$ a"),
            ("a\\", "a"),
            ("${x:-a b}", "one"),
        ] {
            assert_eq!(expander().word(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, want) in [
            ("'a", "failed to process \"'a\": unexpected end of statement while looking for matching single-quote"),
            ("\"a", "failed to process \"\\\"a\": unexpected end of statement while looking for matching double-quote"),
            ("${", "failed to process \"${\": syntax error: missing '}'"),
            ("${}", "failed to process \"${}\": syntax error: bad substitution"),
            ("${x", "failed to process \"${x\": missing ':' in substitution"),
            ("${x:-y", "failed to process \"${x:-y\": syntax error: missing '}'"),
            ("${n:?y}", "failed to process \"${n:?y}\": n: y"),
            ("${n=y}", "failed to process \"${n=y}\": missing ':' in substitution"),
            ("${n?}", "failed to process \"${n?}\": n: is not allowed to be unset"),
            ("${x:=y}", "failed to process \"${x:=y}\": unsupported modifier (=) in substitution"),
        ] {
            assert_eq!(expander().word(text).unwrap_err().message(), want);
        }
        let deep = "${a:-".repeat(5000);
        assert!(expander().word(&deep).is_err());
    }

    #[test]
    fn a_budget_bounds_expanded_values() {
        let budget = Budget::new();
        let value = "x".repeat(1000);
        let expander =
            Expander { escape: '\\', look_up: &|name| (name != "no").then(|| value.clone()), budget: &budget };
        let many = |count: usize| "$a\"${b:-c}\"${no:-$d}".repeat(count);
        assert_eq!(expander.word(&many(300)).unwrap().len(), 900_000);
        let error = expander.word(&many(300)).unwrap_err();
        assert!(error.message().contains("more than 1048576 bytes") && error.message().len() < 2000, "{error}");
        assert!(expander.word("$a").is_err(), "of one instruction");
        assert!(check_all("x", [value.as_str(); 1048].into_iter()).is_ok());
        assert!(check_all("x", [value.as_str(); 1049].into_iter()).is_err());
    }

    /// A value of a MiB, each byte of it replaced by a MiB, would be a TiB.
    #[test]
    fn replaced_values_stop_at_the_bound() {
        let long = "a".repeat(MAX_VALUES);
        let look_up = |_: &str| Some(long.clone());
        for text in [format!("${{x//a/{long}}}"), format!("${{x//?/{long}}}"), format!("${{x///{long}}}")] {
            let budget = Budget::new();
            let expander = Expander { escape: '`', look_up: &look_up, budget: &budget };
            assert_eq!(expander.word(&text).unwrap_err().cause(), Some(Cause::ValuesTooLarge));
        }
    }

    /// A name that is not there is compared with every variable.
    #[test]
    fn names_that_are_not_there_are_work() {
        let env: Vec<String> = (0..100_000).map(|number| format!("a{number}=x")).collect();
        let look_up = |_: &str| None;
        for one in ["$no ", "${no} ", "${no:-x}", "${no#x}"] {
            let budget = Budget::new();
            budget.looks_in(&env);
            let expander = Expander { escape: '\\', look_up: &look_up, budget: &budget };
            assert!(expander.word(&one.repeat(100)).is_ok(), "{one}");
            let error = expander.word(&one.repeat(1000)).unwrap_err();
            assert_eq!(error.cause(), Some(Cause::ValuesTooLarge), "{one}: {error}");
            assert!(error.message().contains("too long or too many"), "{one}: {error}");
            // A common environment has room for as many as a line can have.
            let budget = Budget::new();
            budget.looks_in(&env[..200]);
            let expander = Expander { escape: '\\', look_up: &look_up, budget: &budget };
            assert!(expander.word(&one.repeat(10_000)).is_ok(), "{one}");
        }
    }

    /// Each use alone is small.
    #[test]
    fn the_patterns_of_one_instruction_share_their_bound() {
        let value = "a".repeat(10_000);
        let look_up = |name: &str| Some(if name == "p" { "*a".repeat(50) } else { value.clone() });
        for one in ["${x##$p}", "${x%%$p}", "${x//${p}b/}", "${x:+y}"] {
            let budget = Budget::new();
            let expander = Expander { escape: '\\', look_up: &look_up, budget: &budget };
            assert!(expander.word(one).is_ok() || one.contains("//"), "{one}");
            let error = expander.word(&one.repeat(20_000)).unwrap_err();
            assert_eq!(error.cause(), Some(Cause::ValuesTooLarge), "{one}: {error}");
            assert!(error.message().contains("too long or too many"), "{one}: {error}");
        }
    }

    #[test]
    fn words_of_a_value() {
        assert_eq!(expander().words("$two c").unwrap(), ["a", "b", "c"]);
        assert_eq!(expander().words("\"$two\" c\\ d").unwrap(), ["a b", "c d"]);
        assert!(expander().words("").unwrap().is_empty());
    }

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(split_words("a=\"b c\" d='e f' g\\ h", '\\'), ["a=\"b c\"", "d='e f'", "g\\ h"]);
        assert_eq!(split_words("  a\t\"\" ", '\\'), ["a", "\"\""]);
        assert_eq!(split_words("a=b`", '`'), ["a=b"]);
    }
}
