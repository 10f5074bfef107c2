//! A profile as JSON, field by field.

use crate::error::{Error, Result};
use crate::model::json_words;
use serde::Deserialize;

/// The whole document. Known fields that this engine does not support are kept, so that they can be refused.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Said {
    pub default_action: Option<String>,
    pub default_errno_ret: Option<u32>,
    pub architectures: Option<Vec<String>>,
    pub arch_map: Option<Vec<SaidArch>>,
    pub syscalls: Option<Vec<SaidRule>>,
    pub flags: Option<Vec<String>>,
    pub listener_path: Option<String>,
}

/// One native architecture and those that run beside it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SaidArch {
    pub architecture: String,
    pub sub_architectures: Option<Vec<String>>,
}

/// One rule; `name` is the old form of `names`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SaidRule {
    pub name: Option<String>,
    pub names: Option<Vec<String>>,
    pub action: Option<String>,
    pub errno_ret: Option<u32>,
    pub args: Option<Vec<SaidArgument>>,
    pub includes: Option<SaidFilter>,
    pub excludes: Option<SaidFilter>,
}

/// A condition on an argument.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SaidArgument {
    pub index: u64,
    pub value: u64,
    pub value_two: u64,
    pub op: String,
}

/// The conditions under which a rule applies.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SaidFilter {
    pub caps: Option<Vec<String>>,
    pub arches: Option<Vec<String>>,
    pub min_kernel: Option<String>,
}

/// # Errors
///
/// Invalid JSON, or a field of the wrong type; the message names it.
pub(super) fn decode(json: &str) -> Result<Said> {
    serde_json::from_str(json).map_err(|error| blame(json, error))
}

/// The parser reports the position in the text, not the field: the fields are tried one by one.
fn blame(json: &str, error: serde_json::Error) -> Error {
    let mut whole: serde_json::Value = match serde_json::from_str(json) {
        Ok(value) => value,
        Err(error) => return Error::invalid(json_words(&error)),
    };
    let rules =
        whole.get_mut("syscalls").and_then(|rules| rules.as_array_mut()).map(std::mem::take).unwrap_or_default();
    let mut found = wrong_field::<Said>(&whole, "");
    for (index, rule) in rules.iter().enumerate() {
        found = found.or_else(|| wrong_field::<SaidRule>(rule, &format!("syscalls[{index}].")));
    }
    Error::invalid(found.unwrap_or_else(|| json_words(&error)))
}

/// The first field of an object that does not fit `T` by itself.
fn wrong_field<T: serde::de::DeserializeOwned>(object: &serde_json::Value, prefix: &str) -> Option<String> {
    let Some(fields) = object.as_object() else {
        return Some(format!("{}: not an object", prefix.trim_end_matches('.')));
    };
    fields.iter().find_map(|(name, value)| {
        let alone = serde_json::json!({ name: value }).to_string();
        let error = serde_json::from_str::<T>(&alone).err()?;
        Some(format!("{prefix}{name}: {}", json_words(&error)))
    })
}
