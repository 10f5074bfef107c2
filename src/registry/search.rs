//! Searching: the old protocol's `GET /v1/search` where a registry has it, else the names of its catalog.

use super::transport::{Answer, Payload};
use super::{Client, MAX_MANIFEST, MAX_PAGES, next_page, refused};
use crate::error::{Error, Result};
use crate::model::{SearchResult, json_words};
use serde::Deserialize;

/// Where the default registry answers searches.
const DEFAULT_INDEX: &str = "index.docker.io";
/// Most names of a catalog that are looked through.
const MAX_NAMES: usize = 200_000;

impl Client<'_> {
    /// At most `limit` images that have to do with `term`, best first.
    pub(crate) fn search(&self, term: &str, limit: usize) -> Result<Vec<SearchResult>> {
        #[derive(Deserialize)]
        struct Found {
            #[serde(default)]
            results: Vec<SearchResult>,
        }
        let url = self.base.at("/v1/search").with("q", term).with("n", &limit.to_string());
        let answer = self.ask(url, "")?;
        match answer.status {
            200 => {}
            // Newer registries do not have that address any more.
            404 | 405 => return self.search_catalog(term, limit),
            _ => return Err(refused(answer, "search")),
        }
        let mut found: Found = read(answer)?;
        found.results.truncate(limit);
        for result in &mut found.results {
            result.is_trusted |= result.is_automated;
        }
        Ok(found.results)
    }

    /// The repositories whose names have `term` in them, in the catalog's order.
    fn search_catalog(&self, term: &str, limit: usize) -> Result<Vec<SearchResult>> {
        #[derive(Deserialize)]
        struct Page {
            repositories: Option<Vec<String>>,
        }
        let term = term.to_lowercase();
        let (mut found, mut seen) = (Vec::new(), 0);
        let mut next = Some(self.base.at("/v2/_catalog").with("n", "1000"));
        for _ in 0..MAX_PAGES {
            let Some(url) = next.take() else { break };
            let answer = self.ask(url, "registry:catalog:*")?;
            if answer.status != 200 {
                return Err(refused(answer, "search"));
            }
            next = answer.header("link").and_then(next_page).map(|link| answer.url.join(&link)).transpose()?;
            let page: Page = read(answer)?;
            for name in page.repositories.unwrap_or_default() {
                seen += 1;
                if name.to_lowercase().contains(&term) {
                    found.push(SearchResult { name, ..SearchResult::default() });
                }
                if found.len() >= limit || seen >= MAX_NAMES {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    fn ask(&self, url: super::Url, scope: &str) -> Result<Answer> {
        self.call("GET", url, &[], scope, Payload::None)
    }

    /// The host that answers searches in the registry `domain`.
    pub(crate) fn index_of(domain: &str) -> &str {
        if domain == super::DEFAULT_DOMAIN { DEFAULT_INDEX } else { domain }
    }
}

fn read<T: serde::de::DeserializeOwned>(answer: Answer) -> Result<T> {
    let shown = answer.url.shown();
    crate::document::read_of_server(&answer.bytes(MAX_MANIFEST)?)
        .map_err(|e| Error::internal(format!("{shown}: {}", json_words(&e))))
}
