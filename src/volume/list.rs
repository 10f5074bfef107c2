//! The filters of a list of volumes.

use crate::error::{Error, Result};
use crate::model::{ListVolumes, StringMap, Volume};
use regex_lite::Regex;

/// A query made ready. Values of one key are alternatives, except of labels, which must all be there.
pub(super) struct Filter<'a> {
    query: &'a ListVolumes,
    names: Vec<Regex>,
    dangling: Option<bool>,
}

impl<'a> Filter<'a> {
    pub(super) fn new(query: &'a ListVolumes) -> Result<Filter<'a>> {
        if let Some(key) =
            query.filters.keys().find(|k| !matches!(k.as_str(), "dangling" | "driver" | "label" | "name"))
        {
            return Err(Error::invalid(format!("Invalid filter '{key}'")));
        }
        let values = |key: &str| query.filters.get(key).into_iter().flatten().map(String::as_str);
        let mut dangling = None;
        for value in values("dangling") {
            dangling = match value {
                "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => {
                    let all: Vec<&str> = values("dangling").collect();
                    return Err(Error::invalid(format!("Invalid filter 'dangling=[{}]'", all.join(" "))));
                }
            };
        }
        Ok(Filter { query, names: values("name").filter_map(|value| Regex::new(value).ok()).collect(), dangling })
    }

    pub(super) fn takes(&self, volume: &Volume, used: bool) -> bool {
        let any = |key: &str, fits: &dyn Fn(&str) -> bool| match self.query.filters.get(key) {
            Some(values) if !values.is_empty() => values.iter().any(|value| fits(value)),
            _ => true,
        };
        let named = |value: &str| volume.name == value || self.names.iter().any(|name| name.is_match(&volume.name));
        let labels = self.query.filters.get("label").into_iter().flatten();
        let empty = StringMap::new();
        let has = volume.labels.as_ref().unwrap_or(&empty);
        self.dangling.is_none_or(|dangling| dangling != used)
            && any("name", &named)
            && any("driver", &|value| volume.driver == value)
            && labels.into_iter().all(|label| match label.split_once('=') {
                Some((key, value)) => has.get(key).is_some_and(|has| has == value),
                None => has.contains_key(label),
            })
    }
}
