//! Listing images.

use super::catalog::find;
use super::config::ImageConfig;
use super::reference::Reference;
use crate::error::{Error, Result};
use crate::model::{ImageSummary, ListImages, StringMap, bad_filter, moment};
use crate::store::images::{self as rows, ImageRow, NameRow};
use rusqlite::Transaction;
use std::collections::{HashMap, HashSet};

const NO_TAG: &str = "<none>:<none>";
const NO_DIGEST: &str = "<none>@<none>";

/// The images that `query` selects, newest first.
pub(super) fn list(tx: &Transaction<'_>, query: &ListImages) -> Result<Vec<ImageSummary>> {
    let filter = Filter::read(query)?.resolve(tx)?;
    let images = rows::all(tx)?;
    let parents: HashSet<&str> = images.iter().filter_map(|image| image.parent.as_deref()).collect();
    let mut names: HashMap<String, Vec<NameRow>> = HashMap::new();
    for name in rows::all_names(tx)? {
        names.entry(name.image_id.clone()).or_default().push(name);
    }
    let mut list = Vec::new();
    for image in &images {
        let is_parent = parents.contains(image.id.as_str());
        let names = names.remove(&image.id).unwrap_or_default();
        if let Some((tags, digests, labels)) = filter.apply(image, names, is_parent)? {
            let size = rows::layer_sizes(tx, &image.id)?.iter().sum();
            list.push(ImageSummary {
                id: image.id.clone(),
                parent_id: image.parent.clone().unwrap_or_default(),
                repo_tags: tags,
                repo_digests: digests,
                created: image.created.div_euclid(1_000_000_000),
                size,
                virtual_size: size,
                shared_size: -1,
                containers: -1,
                labels,
            });
        }
    }
    Ok(list)
}

/// The earliest of the times of a filter.
fn until(key: &str, values: &[String]) -> Result<i64> {
    let times = values.iter().map(|value| moment(value).ok_or_else(|| bad_filter(key, values)));
    Ok(times.collect::<Result<Vec<_>>>()?.into_iter().min().unwrap_or(i64::MAX))
}

/// A request for a list, checked.
struct Filter {
    all: bool,
    dangling: Option<bool>,
    labels: Vec<String>,
    references: Vec<String>,
    before: Vec<String>,
    since: Vec<String>,
    /// Only images that were made before this time.
    until: i64,
    /// `before` and `since` as times.
    created: (i64, i64),
}

type Shown = (Option<Vec<String>>, Option<Vec<String>>, Option<StringMap>);

impl Filter {
    fn read(query: &ListImages) -> Result<Filter> {
        let mut filter = Filter {
            all: query.all,
            dangling: None,
            labels: Vec::new(),
            references: Vec::new(),
            before: Vec::new(),
            since: Vec::new(),
            until: i64::MAX,
            created: (i64::MAX, i64::MIN),
        };
        for (key, values) in &query.filters {
            match key.as_str() {
                "dangling" => filter.dangling = dangling(values)?,
                "label" => filter.labels.clone_from(values),
                "reference" => filter.references.clone_from(values),
                "before" => filter.before.clone_from(values),
                "since" => filter.since.clone_from(values),
                "until" => filter.until = until(key, values)?.min(filter.until),
                other => return Err(Error::invalid(format!("Invalid filter '{other}'"))),
            }
        }
        if !query.filter.is_empty() {
            filter.references.push(query.filter.clone());
        }
        for pattern in &filter.references {
            // A malformed pattern is an error even where there is nothing to match.
            glob(pattern, "")?;
        }
        Ok(filter)
    }

    fn resolve(mut self, tx: &Transaction<'_>) -> Result<Filter> {
        let created = |name: &String| -> Result<i64> {
            let id = find(tx, name)?.id;
            Ok(rows::get(tx, &id)?.map_or(0, |row| row.created))
        };
        for name in &self.before {
            self.created.0 = self.created.0.min(created(name)?);
        }
        for name in &self.since {
            self.created.1 = self.created.1.max(created(name)?);
        }
        Ok(self)
    }

    /// The image's names and labels as shown, or `None`: it is not shown.
    fn apply(&self, image: &ImageRow, names: Vec<NameRow>, is_parent: bool) -> Result<Option<Shown>> {
        if image.created >= self.created.0 && !self.before.is_empty()
            || image.created <= self.created.1 && !self.since.is_empty()
            || image.created >= self.until
        {
            return Ok(None);
        }
        let config = ImageConfig::parse(&image.config)?.config;
        let labels = config.map(|config| config.labels);
        let has = |wanted: &String| {
            let labels = labels.as_ref()?;
            let (key, value) = wanted.split_once('=').map_or((wanted.as_str(), None), |(k, v)| (k, Some(v)));
            labels.get(key).filter(|have| value.is_none_or(|value| *have == value))
        };
        if !self.labels.iter().all(|wanted| has(wanted).is_some()) {
            return Ok(None);
        }
        let dangling = self.dangling == Some(true);
        if dangling && is_parent {
            return Ok(None);
        }
        let (mut tags, mut digests) = (Vec::new(), Vec::new());
        for name in names {
            if self.names(&name)? {
                let list = if name.is_digest { &mut digests } else { &mut tags };
                list.push(name.name);
            }
        }
        let shown = labels.filter(|labels| !labels.is_empty());
        if tags.is_empty() && digests.is_empty() {
            if !self.all && is_parent || self.dangling == Some(false) || !self.references.is_empty() {
                return Ok(None);
            }
            return Ok(Some((Some(vec![NO_TAG.into()]), Some(vec![NO_DIGEST.into()]), shown)));
        }
        if dangling && !tags.is_empty() {
            return Ok(None);
        }
        let digests = (!digests.is_empty()).then_some(digests);
        Ok(Some(((!tags.is_empty()).then_some(tags), digests, shown)))
    }

    fn names(&self, name: &NameRow) -> Result<bool> {
        if self.references.is_empty() {
            return Ok(true);
        }
        for pattern in &self.references {
            // A full name is as good as the familiar one.
            let familiar = Reference::parse(pattern).map(|r| r.to_string()).unwrap_or_default();
            if glob(pattern, &name.name)? || glob(pattern, &name.repository)? {
                return Ok(true);
            }
            if familiar == name.name || familiar == name.repository {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn dangling(values: &[String]) -> Result<Option<bool>> {
    let mut answer = None;
    for value in values {
        let this = match value.as_str() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return Err(Error::invalid(format!("Invalid filter 'dangling=[{}]'", values.join(" ")))),
        };
        if answer.is_some_and(|before| before != this) {
            return Err(Error::invalid(format!("Invalid filter 'dangling=[{}]'", values.join(" "))));
        }
        answer = Some(this);
    }
    Ok(answer)
}

/// Go's path.Match: `*` and `?` do not match a slash, `[a-z]`, `[^a]`, `\` takes the next as it is.
fn glob(pattern: &str, text: &str) -> Result<bool> {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    check_glob(&pattern)?;
    Ok(matches(&pattern, &text))
}

fn check_glob(mut pattern: &[char]) -> Result<()> {
    while let Some((first, rest)) = pattern.split_first() {
        pattern = match first {
            '\\' if rest.is_empty() => return Err(bad_glob()),
            '\\' => &rest[1..],
            '[' => class(rest, '\0').ok_or_else(bad_glob)?.1,
            _ => rest,
        };
    }
    Ok(())
}

fn bad_glob() -> Error {
    Error::invalid("invalid filter 'reference': syntax error in pattern")
}

/// Matches without going back more than to the last star: a star never matches a slash, so that is enough.
fn matches(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t, mut star) = (pattern, text, None::<(&[char], &[char])>);
    loop {
        let step = match (p.split_first(), t.split_first()) {
            (None, None) => return true,
            (Some(('*', rest)), _) => {
                star = Some((rest, t));
                p = rest;
                continue;
            }
            (Some(('?', rest)), Some((c, after))) if *c != '/' => Some((rest, after)),
            (Some(('[', rest)), Some((c, after))) => match class(rest, *c) {
                Some((true, rest)) => Some((rest, after)),
                _ => None,
            },
            (Some(('\\', rest)), Some((c, after))) if rest.first() == Some(c) => Some((&rest[1..], after)),
            (Some((want, rest)), Some((c, after))) if want == c && !matches!(want, '?' | '[' | '\\') => {
                Some((rest, after))
            }
            _ => None,
        };
        match (step, star) {
            (Some((rest, after)), _) => (p, t) = (rest, after),
            (None, Some((rest, from))) => match from.split_first() {
                Some((c, after)) if *c != '/' => {
                    star = Some((rest, after));
                    (p, t) = (rest, after);
                }
                _ => return false,
            },
            (None, None) => return false,
        }
    }
}

/// Whether `c` is in the class whose text begins `pattern` (after `[`), and what follows it; `None`: malformed.
fn class(pattern: &[char], c: char) -> Option<(bool, &[char])> {
    let (negated, mut rest) = match pattern.first() {
        Some('^') => (true, &pattern[1..]),
        _ => (false, pattern),
    };
    let (mut found, mut ranges) = (false, 0);
    loop {
        match rest.split_first()? {
            (']', after) if ranges > 0 => return Some((found != negated, after)),
            _ => {
                let (low, after) = member(rest)?;
                let (high, after) = match after.split_first() {
                    Some(('-', after)) => member(after)?,
                    _ => (low, after),
                };
                found |= low <= c && c <= high;
                ranges += 1;
                rest = after;
            }
        }
    }
}

fn member(pattern: &[char]) -> Option<(char, &[char])> {
    match pattern.split_first()? {
        ('-' | ']', _) => None,
        ('\\', rest) => rest.split_first().map(|(c, rest)| (*c, rest)),
        (c, rest) => Some((*c, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_in_go() {
        for (pattern, text, want) in [
            ("busy*", "busybox", true),
            ("*box", "busybox:1", false),
            ("*/app", "user/app", true),
            ("*", "user/app", false),
            ("b?s[a-z]*:l*t", "busybox:latest", true),
            ("b[^u]*", "busybox", false),
            ("a*b*c", "aXbYbZc", true),
            ("a\\*", "a*", true),
            ("", "", true),
        ] {
            assert_eq!(glob(pattern, text).unwrap(), want, "{pattern} {text}");
        }
        for pattern in ["[", "[]", "a[b", "\\", "[a-]"] {
            assert!(glob(pattern, "a").is_err(), "{pattern}");
        }
    }
}
