//! JSON schemas of the documents that go in and out of the C interface, made from the Rust source:
//!
//! - [`types`]: the types that serde reads and writes (`src/model`, and some of `ffi/src`);
//! - [`tables`]: the members of request bodies that the API knows (`http/src/schema.rs`), which say what is refused;
//! - [`queries`]: the query documents, by the calls that read them (`ffi/src`), with descriptions of [`about`].
//!
//! A function's comment names the schema of each of its documents after "Schemas:"; [`documents`] has the list of all.
//! A document that goes in has the members of its schema and no other. A document that comes out may get more members in a
//! later version.

mod about;
mod documents;
mod queries;
mod tables;
mod types;

use crate::items::Item;
use documents::{DOCUMENTS, Document, Source};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;

/// Which way a document goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the caller to the library.
    In,
    /// From the library to the caller.
    Out,
}

/// The schemas: the name of each file, and its text.
pub fn all(top: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let types = types::Types::read(top)?;
    let tables = tables::Tables::read(&top.join("http/src/schema.rs"))?;
    let queries = queries::Queries::read(&top.join("ffi/src"))?;
    let mut files = BTreeMap::new();
    for document in DOCUMENTS {
        let mut parts = types::Parts::default();
        let mut schema = match document.source {
            Source::Type(name) => types.named(name, document.way, &mut parts)?,
            Source::Body(table, name) => tables.body(table, name, &types, &mut parts)?,
            Source::Query(function) => queries.of(function)?,
            Source::Fixed(text) => serde_json::from_str(text)?,
        };
        about::describe(document.name, &mut schema)?;
        let whole = whole(document, schema, parts);
        let bare = about::undescribed(&whole);
        if !bare.is_empty() {
            return Err(format!("{}: members without a description: {bare:?}", document.name).into());
        }
        let text = serde_json::to_string_pretty(&whole)? + "\n";
        files.insert(format!("{}.json", document.name), text);
    }
    Ok(files)
}

/// A schema with its head and its parts.
fn whole(document: &Document, schema: Value, parts: types::Parts) -> Value {
    let mut whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": document.name,
        "description": document.about,
    });
    merge(&mut whole, schema);
    let parts = parts.into_schemas();
    if !parts.is_empty() {
        whole["$defs"] = Value::Object(parts);
    }
    whole
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        for (name, value) in more {
            into.entry(name).or_insert(value);
        }
    }
}

/// The schemas that an item's comment names: each with its argument.
pub fn named_by(item: &Item) -> Vec<(String, String)> {
    let Some(line) = item.paragraphs().into_iter().find_map(|text| text.strip_prefix("Schemas: ").map(str::to_owned))
    else {
        return Vec::new();
    };
    let pairs = line.trim_end_matches('.').split(", ").filter_map(|pair| pair.split_once(' '));
    pairs.map(|(argument, name)| (argument.to_owned(), name.to_owned())).collect()
}

/// A line for each argument for a document without a schema, and for each schema that is not there, or that nothing names.
pub fn missing(items: &[Item]) -> Vec<String> {
    let known: BTreeSet<&str> = DOCUMENTS.iter().map(|document| document.name).collect();
    let mut unused = known.clone();
    let mut lines = Vec::new();
    for item in items {
        let named = named_by(item);
        let arguments = item.arguments();
        for (argument, _) in arguments.iter().filter(|(name, _)| name.ends_with("_json")) {
            if !named.iter().any(|(name, _)| name == argument) {
                lines.push(format!("{}: its comment names no schema of {argument}", item.name));
            }
        }
        for (_, name) in &named {
            unused.remove(name.as_str());
            if !known.contains(name.as_str()) {
                lines.push(format!("{}: there is no schema {name}", item.name));
            }
        }
    }
    lines.extend(unused.into_iter().map(|name| format!("no comment names the schema {name}")));
    lines
}
