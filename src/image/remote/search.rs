//! Searching registries for images.

use super::{beside, login_domain};
use crate::error::{Error, Result};
use crate::model::{RegistryOptions, SearchImages, SearchResult, split_registry};
use crate::op::Op;
use crate::registry::{Client, Transport};

/// Results asked for unless the caller says how many, and the most.
const RESULTS: i64 = 25;
const MOST: i64 = 100;

/// Asks the registry that the term names (or the default one) for images.
pub(crate) fn search(options: &RegistryOptions, request: &SearchImages, op: Option<&Op>) -> Result<Vec<SearchResult>> {
    let limit = request.limit.unwrap_or(RESULTS);
    if !(1..=MOST).contains(&limit) {
        return Err(Error::invalid(format!("Limit {limit} is outside the range of [1, {MOST}]")));
    }
    let filter = Filter::read(request)?;
    let (domain, term) = split(&request.term)?;
    let transport = Transport::new(options.clone());
    let found = beside(&transport, &mut |_| Ok(()), op, |_| {
        let client = Client::connect(&transport, Client::index_of(&domain), request.auth.clone())?;
        client.search(term, limit.unsigned_abs() as usize)
    })?;
    Ok(found.into_iter().filter(|result| filter.takes(result)).collect())
}

/// The registry and the words of a term. The default registry's own images are found by their short names.
fn split(term: &str) -> Result<(String, &str)> {
    let bad = |why: &str| Error::invalid(format!("invalid repository name ({term:?}): {why}"));
    if term.contains("://") {
        return Err(bad("it should not have a scheme"));
    }
    let (domain, words) = match split_registry(term) {
        (Some(host), rest) => (login_domain(host)?, rest),
        (None, name) => ("docker.io".to_owned(), name.strip_prefix("library/").unwrap_or(name)),
    };
    match words {
        "" => Err(bad("there is nothing to look for")),
        words => Ok((domain, words)),
    }
}

#[derive(Debug, Default, PartialEq)]
struct Filter {
    official: Option<bool>,
    automated: Option<bool>,
    stars: i64,
}

impl Filter {
    fn read(request: &SearchImages) -> Result<Filter> {
        let mut filter = Filter::default();
        for (key, values) in &request.filters {
            let bad = || Error::invalid(format!("Invalid filter '{key}=[{}]'", values.join(" ")));
            match key.as_str() {
                "is-official" => filter.official = flag(values).ok_or_else(bad)?,
                "is-automated" => filter.automated = flag(values).ok_or_else(bad)?,
                "stars" => {
                    for value in values {
                        filter.stars = filter.stars.max(value.parse().map_err(|_| bad())?);
                    }
                }
                other => return Err(Error::invalid(format!("Invalid filter '{other}'"))),
            }
        }
        Ok(filter)
    }

    fn takes(&self, result: &SearchResult) -> bool {
        self.official.is_none_or(|want| result.is_official == want)
            && self.automated.is_none_or(|want| result.is_automated == want)
            && result.star_count >= self.stars
    }
}

/// The value that all of the values name; `None`: they name nothing that is known.
fn flag(values: &[String]) -> Option<Option<bool>> {
    let mut said = None;
    for value in values {
        let this = match value.as_str() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return None,
        };
        if said.is_some_and(|before| before != this) {
            return None;
        }
        said = Some(this);
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_may_name_a_registry() {
        for (term, domain, words) in [
            ("busybox", "docker.io", "busybox"),
            ("library/busybox", "docker.io", "busybox"),
            ("team/busy", "docker.io", "team/busy"),
            ("localhost:5000/a/b", "localhost:5000", "a/b"),
            ("docker.io/x", "docker.io", "x"),
        ] {
            assert_eq!(split(term).unwrap(), (domain.to_owned(), words));
        }
        for bad in ["", "http://h/x", "localhost/"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn filters_are_checked() {
        let read = |key: &str, values: &[&str]| {
            let values = values.iter().map(|v| (*v).to_owned()).collect();
            let filters = [(key.to_owned(), values)].into();
            Filter::read(&SearchImages { filters, ..SearchImages::default() })
        };
        assert_eq!(read("stars", &["3", "7"]).unwrap().stars, 7);
        assert_eq!(read("is-official", &["true"]).unwrap().official, Some(true));
        assert_eq!(read("stars", &["x"]).unwrap_err().message(), "Invalid filter 'stars=[x]'");
        assert_eq!(read("is-official", &["1", "0"]).unwrap_err().message(), "Invalid filter 'is-official=[1 0]'");
        assert_eq!(read("size", &[]).unwrap_err().message(), "Invalid filter 'size'");
    }
}
