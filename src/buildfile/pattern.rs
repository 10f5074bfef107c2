//! Patterns in substitutions (`${name#pattern}`): `*` and `?` stand for any characters but the end of a line.

use super::budget::Budget;
use crate::error::{Error, Result};

/// A pattern.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Part {
    Star,
    One,
    Char(char),
}

/// Which of several beginnings (or ends) of a value that match is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Shortest,
    Longest,
}

impl Pattern {
    /// Reads a pattern, in which `\` takes the next character as it is.
    pub(super) fn read(text: &str) -> Result<Pattern> {
        let (mut parts, mut chars) = (Vec::new(), text.chars());
        while let Some(c) = chars.next() {
            parts.push(match c {
                '*' => Part::Star,
                '?' => Part::One,
                '\\' => match chars.next() {
                    Some(c @ ('*' | '?' | '\\' | '}' | '/')) => Part::Char(c),
                    other => {
                        let other = other.map(String::from).unwrap_or_default();
                        return Err(Error::invalid(format!("invalid escape '\\{other}' in the pattern {text:?}")));
                    }
                },
                c => Part::Char(c),
            });
        }
        Ok(Pattern(parts))
    }

    /// The value without the beginning that matches.
    pub(super) fn without_beginning(&self, value: &str, length: Length, budget: &Budget) -> Result<String> {
        let value: Vec<char> = value.chars().collect();
        let end = matched(&self.0, &value, length, budget)?.unwrap_or(0);
        Ok(value[end..].iter().collect())
    }

    /// The value without the end that matches.
    pub(super) fn without_end(self, value: &str, length: Length, budget: &Budget) -> Result<String> {
        let backwards = Pattern(self.0.into_iter().rev().collect());
        let value: String = value.chars().rev().collect();
        Ok(backwards.without_beginning(&value, length, budget)?.chars().rev().collect())
    }

    /// Puts another text into the first place of the value that matches, or into `all` such places.
    pub(super) fn replaced(&self, value: &str, other: &str, all: bool, budget: &Budget) -> Result<String> {
        let value: Vec<char> = value.chars().collect();
        let (mut out, mut at, mut done) = (String::new(), 0, false);
        while at <= value.len() {
            let end = if done { None } else { matched(&self.0, &value[at..], Length::Longest, budget)? };
            if let Some(length) = end {
                // The whole of it may be more than any memory holds.
                budget.fits(out.len() + other.len())?;
                out.push_str(other);
                done = !all;
                at += length;
                if length > 0 {
                    continue;
                }
            }
            out.extend(value.get(at));
            at += 1;
        }
        Ok(out)
    }
}

/// How many characters the pattern takes from the beginning of the value. No going back, so no pattern is slow; each
/// character costs as many comparisons as the pattern has parts.
fn matched(pattern: &[Part], value: &[char], length: Length, budget: &Budget) -> Result<Option<usize>> {
    // Where in the pattern the characters so far may have led to.
    let (mut reached, mut next) = (vec![false; pattern.len() + 1], vec![false; pattern.len() + 1]);
    reached[0] = true;
    let mut found = None;
    for at in 0..=value.len() {
        budget.work(pattern.len() + 1)?;
        // A star may take nothing.
        for index in 0..pattern.len() {
            reached[index + 1] |= reached[index] && pattern[index] == Part::Star;
        }
        if reached[pattern.len()] {
            found = Some(at);
        }
        let Some(&c) = value.get(at).filter(|_| found.is_none() || length == Length::Longest) else { break };
        next.fill(false);
        for index in (0..pattern.len()).filter(|index| reached[*index]) {
            match pattern[index] {
                Part::Star => next[index] |= c != '\n',
                Part::One => next[index + 1] |= c != '\n',
                Part::Char(want) => next[index + 1] |= want == c,
            }
        }
        std::mem::swap(&mut reached, &mut next);
        if !reached.contains(&true) {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::Length::{Longest, Shortest};
    use super::*;

    #[test]
    fn beginnings_ends_and_places() {
        let (pattern, budget) = (|text: &str| Pattern::read(text).unwrap(), Budget::new());
        for (text, length, value, beginning, end) in [
            ("*/", Shortest, "/a/b.tar.gz", "a/b.tar.gz", "/a/b.tar.gz"),
            ("*/", Longest, "/a/b/", "", ""),
            (".*", Shortest, "a.b.c", "a.b.c", "a.b"),
            (".*", Longest, "a.b.c", "a.b.c", "a"),
            ("?", Longest, "xyz", "yz", "xy"),
            ("", Longest, "xyz", "xyz", "xyz"),
            ("*", Longest, "xyz", "", ""),
            ("\\*", Longest, "*x*", "x*", "*x"),
            ("no", Shortest, "xyz", "xyz", "xyz"),
        ] {
            assert_eq!(pattern(text).without_beginning(value, length, &budget).unwrap(), beginning, "{text} {value}");
            assert_eq!(pattern(text).without_end(value, length, &budget).unwrap(), end, "{text} {value}");
        }
        for (text, other, all, want) in [
            ("a", "z", false, "zbcabc"),
            ("a", "z", true, "zbczbc"),
            ("b*b", "", true, "ac"),
            ("x", "y", true, "abcabc"),
            ("", "-", true, "-a-b-c-a-b-c-"),
            ("", "-", false, "-abcabc"),
        ] {
            assert_eq!(pattern(text).replaced("abcabc", other, all, &budget).unwrap(), want, "{text}");
        }
        assert!(Pattern::read("a\\b").is_err() && Pattern::read("a\\").is_err());
        // A match is looked for at each place.
        assert!(pattern("*b").replaced(&"a".repeat(100_000), "", true, &budget).is_err());
    }
}
