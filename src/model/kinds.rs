//! The words for a JSON document that does not have the expected shape: kinds of JSON, never types of Rust.

/// The parser's error in words of JSON: `a value must be a whole number, not the string "lots"`.
pub fn json_words(error: &serde_json::Error) -> String {
    let parser = error.to_string();
    // The place of a value counts from the beginning of a part of the document, and says little.
    let plain = parser.rsplit_once(" at line ").map_or(parser.as_str(), |(words, _)| words);
    if error.is_syntax() || error.is_eof() {
        return parser;
    }
    let kinds = plain.strip_prefix("invalid type: ").or_else(|| plain.strip_prefix("invalid value: "));
    if let Some((given, wanted)) = kinds.and_then(|kinds| kinds.rsplit_once(", expected ")) {
        return format!("a value must be {}, not {}", wanted_kind(wanted), given_value(given));
    }
    if let Some(field) = plain.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next()) {
        return format!("{field} is not a known member");
    }
    match plain.strip_prefix("missing field ") {
        Some(field) => format!("the member {} is missing", field.trim_matches('`')),
        None if plain.starts_with("data did not match any variant") => {
            "the document has none of the known forms".into()
        }
        None => plain.to_owned(),
    }
}

fn given_value(given: &str) -> String {
    let (kind, value) = given.split_once(' ').unwrap_or((given, ""));
    let value = value.trim_matches('`');
    match kind {
        "string" | "character" => format!("the string {value}"),
        "integer" => format!("the number {value}"),
        "floating" => format!("the number {}", value.trim_start_matches("point `")),
        "boolean" => value.to_owned(),
        "map" => "an object".into(),
        "sequence" => "a list".into(),
        "null" | "unit" | "Option" => "null".into(),
        _ => given.to_owned(),
    }
}

fn wanted_kind(wanted: &str) -> &str {
    match wanted {
        "i64" | "i32" | "i16" | "i8" | "isize" => "a whole number",
        "u64" | "u32" | "u16" | "u8" | "usize" => "a whole number from 0 on",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        _ if wanted.starts_with("struct ") || wanted.starts_with("internally ") => "an object",
        _ if wanted.starts_with("tuple ") || wanted.starts_with("a tuple ") => "a list",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::json_words;
    use serde_json::from_str;
    use std::collections::BTreeMap;

    #[test]
    fn kinds_are_those_of_json() {
        let error = |error: Option<serde_json::Error>| json_words(&error.unwrap());
        let map = |text: &str| error(from_str::<BTreeMap<String, i64>>(text).err());
        assert_eq!(map(r#"{"a":"lots"}"#), "a value must be a whole number, not the string \"lots\"");
        assert_eq!(map(r#"{"a":[]}"#), "a value must be a whole number, not a list");
        assert_eq!(map(r#"{"a":1.5}"#), "a value must be a whole number, not the number 1.5");
        assert_eq!(map("7"), "a value must be an object, not the number 7");
        assert_eq!(error(from_str::<bool>("null").err()), "a value must be true or false, not null");
        assert_eq!(error(from_str::<Vec<bool>>("{}").err()), "a value must be a list, not an object");
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Known {
            #[allow(dead_code)]
            a: bool,
        }
        assert_eq!(error(from_str::<Known>(r#"{"b":1}"#).err()), "b is not a known member");
        assert_eq!(error(from_str::<Known>("{}").err()), "the member a is missing");
        assert!(error(from_str::<Known>("{").err()).starts_with("EOF while parsing"));
    }
}
