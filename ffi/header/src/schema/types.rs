//! Types that serde reads and writes, as JSON schemas: structs and enums with their `serde` attributes, and aliases.

use super::Way::{self, In};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use syn::punctuated::Punctuated;
use syn::visit::Visit;
use syn::{Attribute, Expr, ExprLit, Fields, GenericArgument, Lit, Meta, PathArguments, Token, Type};

type Made<T> = Result<T, Box<dyn Error>>;

/// The files and directories that have the types.
const SOURCES: [&str; 4] = ["src/model", "src/model/ports", "ffi/src/root.rs", "ffi/src/image.rs"];

/// Types whose form serde does not show by attributes: their schema going in or out.
const OWN_FORM: &[(&str, &str)] = &[
    ("PortSet", r#"{"type": ["object", "null"], "additionalProperties": {"type": ["object", "null"]}}"#),
    (
        "PortMap",
        r##"{"type": ["object", "null"], "additionalProperties": {"type": ["array", "null"], "items": {"$ref": "#/$defs/PortBinding"}}}"##,
    ),
    ("PortList", r##"{"type": "array", "items": {"$ref": "#/$defs/PortSummary"}}"##),
    ("Empty", r#"{"type": ["object", "null"]}"#),
    // An event with the member that coracle_events_next adds.
    (
        "SequencedEvent",
        r##"{"allOf": [{"$ref": "#/$defs/Event"}], "type": "object", "required": ["sequence"], "properties": {"sequence": {"type": "integer", "minimum": 0, "description": "The number after which a later stream goes on."}}}"##,
    ),
];

/// Members that a function writes (`serialize_with`), as null or as their type.
const MAYBE_NULL: &[(&str, &str)] = &[("ContainerConfig", "Labels")];

/// The types by name.
pub struct Types {
    structs: BTreeMap<String, Struct>,
    enums: BTreeMap<String, syn::ItemEnum>,
    aliases: BTreeMap<String, Type>,
}

/// A struct as serde sees it.
pub struct Struct {
    about: String,
    members: Vec<Member>,
}

/// A member of a struct.
#[derive(Clone)]
pub struct Member {
    pub names: Vec<String>,
    pub kind: Type,
    about: String,
    /// May be absent in a document that goes in.
    default: bool,
    /// May be absent in a document that goes out.
    skipped: bool,
    /// Goes in as null, too.
    null: bool,
    /// The function that reads it.
    reader: String,
    flat: bool,
}

/// The schemas of the types that a document refers to.
#[derive(Default)]
pub struct Parts(BTreeMap<String, Value>);

impl Parts {
    /// Puts a schema in the place of that of a type.
    pub fn replace(&mut self, name: &str, schema: Value) {
        self.0.insert(name.to_owned(), schema);
    }

    pub fn into_schemas(self) -> Map<String, Value> {
        self.0.into_iter().collect()
    }
}

impl Types {
    /// Reads the types of a tree.
    pub fn read(top: &Path) -> Made<Types> {
        let mut types = Types { structs: BTreeMap::new(), enums: BTreeMap::new(), aliases: BTreeMap::new() };
        for source in SOURCES {
            let path = top.join(source);
            let files = match path.is_dir() {
                true => {
                    std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?
                }
                false => vec![path],
            };
            for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs")) {
                types.visit_file(&syn::parse_file(&std::fs::read_to_string(file)?)?);
            }
        }
        Ok(types)
    }

    /// The schema of a type, such as `Vec<Volume>`, by its text.
    pub fn named(&self, text: &str, way: Way, parts: &mut Parts) -> Made<Value> {
        let kind: Type = syn::parse_str(text)?;
        match self.of(&kind, way, parts)? {
            // The document is its type and no reference to it.
            Value::Object(schema) if schema.contains_key("$ref") => {
                parts.0.remove(text).ok_or_else(|| format!("{text} refers to itself").into())
            }
            schema => Ok(schema),
        }
    }

    /// The members of a struct, those of its parts (`flatten`) among them.
    pub fn members(&self, name: &str) -> Made<Vec<Member>> {
        let of = self.structs.get(name).ok_or_else(|| format!("no type {name}"))?;
        let mut all = Vec::new();
        for member in &of.members {
            match member.flat {
                true => all.extend(self.members(&last(&member.kind).ok_or("a flat member")?.0)?),
                false => all.push(member.clone()),
            }
        }
        Ok(all)
    }

    /// The schema of a member.
    pub fn member(&self, of: &str, member: &Member, way: Way, parts: &mut Parts) -> Made<Value> {
        let mut schema = match member.reader.as_str() {
            "words" => json!({"type": ["string", "array"], "items": {"type": "string"}}),
            "signal_text" if way == In => json!({"type": ["string", "integer"]}),
            _ => self.of(&member.kind, way, parts)?,
        };
        let null = way == In && member.null || MAYBE_NULL.iter().any(|(t, m)| *t == of && member.names[0] == *m);
        if null || member.reader == "words" {
            schema = or_null(schema);
        }
        if !member.about.is_empty() {
            schema["description"] = member.about.clone().into();
        }
        Ok(schema)
    }

    /// The schema of a type; structs and enums become parts.
    pub fn of(&self, kind: &Type, way: Way, parts: &mut Parts) -> Made<Value> {
        match kind {
            Type::Reference(reference) => return self.of(&reference.elem, way, parts),
            Type::Array(array) => {
                let Expr::Lit(ExprLit { lit: Lit::Int(count), .. }) = &array.len else { return Err("an array".into()) };
                let (count, items) = (count.base10_parse::<u64>()?, self.of(&array.elem, way, parts)?);
                return Ok(json!({"type": "array", "items": items, "minItems": count, "maxItems": count}));
            }
            _ => {}
        }
        let (name, inner) = last(kind).ok_or("a type that is no path")?;
        Ok(match (name.as_str(), inner.as_slice()) {
            ("String" | "str" | "PathBuf", _) => json!({"type": "string"}),
            ("bool", _) => json!({"type": "boolean"}),
            ("f64" | "f32", _) => json!({"type": "number"}),
            ("u8" | "u16" | "u32" | "u64" | "usize", _) => json!({"type": "integer", "minimum": 0}),
            ("i8" | "i16" | "i32" | "i64" | "isize", _) => json!({"type": "integer"}),
            ("Value", _) => json!({}),
            ("Option", [inner]) => or_null(self.of(inner, way, parts)?),
            ("Vec", [inner]) => json!({"type": "array", "items": self.of(inner, way, parts)?}),
            ("BTreeMap" | "HashMap", [_, inner]) => {
                json!({"type": "object", "additionalProperties": self.of(inner, way, parts)?})
            }
            _ => match self.aliases.get(&name) {
                Some(alias) => self.of(alias, way, parts)?,
                None => self.part(&name, way, parts)?,
            },
        })
    }

    /// A reference to the schema of a struct or an enum.
    fn part(&self, name: &str, way: Way, parts: &mut Parts) -> Made<Value> {
        if let Some((_, schema)) = OWN_FORM.iter().find(|(own, _)| *own == name) {
            for needed in ["PortBinding", "PortSummary", "Event"] {
                if schema.contains(&format!("/{needed}\"")) {
                    self.part(needed, way, parts)?;
                }
            }
            return Ok(serde_json::from_str(schema)?);
        }
        if !parts.0.contains_key(name) {
            parts.0.insert(name.to_owned(), Value::Null);
            let schema = match self.enums.get(name) {
                Some(of) => self.one_of(of, way, parts)?,
                None => self.object(name, way, parts)?,
            };
            parts.0.insert(name.to_owned(), schema);
        }
        Ok(json!({"$ref": format!("#/$defs/{name}")}))
    }

    fn object(&self, name: &str, way: Way, parts: &mut Parts) -> Made<Value> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for member in self.members(name)? {
            let schema = self.member(name, &member, way, parts)?;
            let optional = if way == In { member.default } else { member.skipped };
            if !optional {
                required.push(member.names[0].clone());
            }
            for name in member.names.iter().take(if way == In { usize::MAX } else { 1 }) {
                properties.insert(name.clone(), schema.clone());
            }
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if way == In {
            schema["additionalProperties"] = false.into();
        }
        if let Some(about) = self.structs.get(name).map(|of| &of.about).filter(|about| !about.is_empty()) {
            schema["description"] = about.clone().into();
        }
        Ok(schema)
    }

    fn one_of(&self, of: &syn::ItemEnum, way: Way, parts: &mut Parts) -> Made<Value> {
        let attributes = Attributes::of(&of.attrs)?;
        if of.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit)) {
            let names: Vec<String> = of.variants.iter().map(|v| attributes.rename(&v.ident.to_string())).collect();
            return Ok(json!({"enum": names}));
        }
        let untagged = attributes.has("untagged");
        let mut forms = Vec::new();
        for variant in &of.variants {
            let inner = match &variant.fields {
                Fields::Unnamed(fields) => {
                    self.of(&fields.unnamed.first().ok_or("an empty variant")?.ty, way, parts)?
                }
                Fields::Named(fields) => self.form(fields, way, parts)?,
                Fields::Unit => json!({"type": "null"}),
            };
            let name = attributes.rename(&variant.ident.to_string());
            let described = || {
                let mut inner = inner.clone();
                inner["description"] = about(&variant.attrs).into();
                inner
            };
            forms.push(match untagged {
                true => inner,
                false => json!({"type": "object", "properties": {&name: described()}, "required": [&name], "additionalProperties": false}),
            });
        }
        Ok(json!({"anyOf": forms}))
    }

    /// The schema of a variant with members.
    fn form(&self, fields: &syn::FieldsNamed, way: Way, parts: &mut Parts) -> Made<Value> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for field in &fields.named {
            let member = Member::of(field, &Attributes::default())?;
            properties.insert(member.names[0].clone(), self.member("", &member, way, parts)?);
            if !member.default {
                required.push(member.names[0].clone());
            }
        }
        Ok(json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}))
    }

    /// The name of the struct behind a type: without `Option`, `Vec` and the like, and behind aliases.
    pub fn struct_of(&self, kind: &Type) -> Option<String> {
        let (name, inner) = last(kind)?;
        match (name.as_str(), inner.as_slice()) {
            ("Option" | "Vec", [inner]) | ("BTreeMap", [_, inner]) => self.struct_of(inner),
            ("PortMap", _) => Some("PortBinding".into()),
            _ => self.structs.contains_key(&name).then_some(name),
        }
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_struct(&mut self, of: &'ast syn::ItemStruct) {
        let attributes = Attributes::of(&of.attrs).unwrap_or_default();
        let Fields::Named(fields) = &of.fields else { return };
        let members = fields.named.iter().filter_map(|field| Member::of(field, &attributes).ok());
        let members = members.filter(|member| !member.names.is_empty()).collect();
        let of_struct = Struct { about: about(&of.attrs), members };
        self.structs.entry(of.ident.to_string()).or_insert(of_struct);
    }

    fn visit_item_enum(&mut self, of: &'ast syn::ItemEnum) {
        self.enums.entry(of.ident.to_string()).or_insert_with(|| of.clone());
    }

    fn visit_item_type(&mut self, of: &'ast syn::ItemType) {
        self.aliases.insert(of.ident.to_string(), (*of.ty).clone());
    }

    // The types of tests stand in no document.
    fn visit_item_mod(&mut self, of: &'ast syn::ItemMod) {
        if of.ident != "tests" {
            syn::visit::visit_item_mod(self, of);
        }
    }
}

impl Member {
    /// A field of a struct. One that serde skips has no name.
    fn of(field: &syn::Field, of: &Attributes) -> Made<Member> {
        let own = Attributes::of(&field.attrs)?;
        let ident = field.ident.as_ref().ok_or("a field without a name")?.to_string();
        let ident = ident.trim_start_matches("r#");
        let mut names = vec![own.text("rename").unwrap_or_else(|| of.rename(ident))];
        names.extend(own.text("alias"));
        let reader = own.text("deserialize_with").unwrap_or_default();
        let option = last(&field.ty).is_some_and(|(name, _)| name == "Option");
        Ok(Member {
            names: if own.has("skip") { Vec::new() } else { names },
            kind: field.ty.clone(),
            about: about(&field.attrs),
            default: own.has("default") || of.has("default") || option,
            skipped: own.text("skip_serializing_if").is_some(),
            null: option || reader.ends_with("null_default"),
            reader: reader.rsplit(':').next().unwrap_or_default().to_owned(),
            flat: own.has("flatten"),
        })
    }
}

/// The `serde` attributes of an item.
#[derive(Default)]
struct Attributes(Vec<Meta>);

impl Attributes {
    fn of(attributes: &[Attribute]) -> Made<Attributes> {
        let mut all = Vec::new();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            all.extend(attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?);
        }
        Ok(Attributes(all))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|meta| meta.path().is_ident(name))
    }

    fn text(&self, name: &str) -> Option<String> {
        let meta = self.0.iter().find(|meta| meta.path().is_ident(name))?;
        match &meta.require_name_value().ok()?.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        }
    }

    /// A name as `rename_all` writes it.
    fn rename(&self, name: &str) -> String {
        let words = words_of(name);
        let upper = |word: &String| word[..1].to_uppercase() + &word[1..];
        match self.text("rename_all").as_deref() {
            Some("PascalCase") => words.iter().map(upper).collect(),
            Some("camelCase") => {
                words.iter().enumerate().map(|(n, word)| if n == 0 { word.clone() } else { upper(word) }).collect()
            }
            Some("kebab-case") => words.join("-"),
            Some("lowercase") => words.concat(),
            _ => name.to_owned(),
        }
    }
}

/// The words of `a_name` or `AName`, in lower case.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let mut word = String::new();
        for c in part.chars() {
            if c.is_uppercase() && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
        }
        words.push(word);
    }
    words
}

/// The last name of a path, and its type arguments.
fn last(kind: &Type) -> Option<(String, Vec<Type>)> {
    let Type::Path(path) = kind else { return None };
    let segment = path.path.segments.last()?;
    let inner = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter(),
        _ => return Some((segment.ident.to_string(), Vec::new())),
    };
    let types = inner.filter_map(|argument| match argument {
        GenericArgument::Type(kind) => Some(kind.clone()),
        _ => None,
    });
    Some((segment.ident.to_string(), types.collect()))
}

/// The text of a comment, in one line.
fn about(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Ok(meta) = attribute.meta.require_name_value()
            && let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value
        {
            lines.push(text.value().trim().to_owned());
        }
    }
    // Readers of a schema do not read examples of Rust.
    let text = lines.split(|line| line.starts_with("```")).next().unwrap_or_default().join(" ");
    text.trim().to_owned()
}

/// A schema that takes null, too.
pub fn or_null(mut schema: Value) -> Value {
    let null = json!("null");
    match schema.get("type") {
        Some(Value::Array(kinds)) if kinds.contains(&null) => {}
        Some(Value::Array(kinds)) => schema["type"] = kinds.iter().chain([&null]).cloned().collect(),
        Some(kind) => schema["type"] = json!([kind, "null"]),
        None if schema.as_object().is_some_and(Map::is_empty) || schema.get("anyOf").is_some_and(has_null) => {}
        None => schema = json!({"anyOf": [schema, {"type": "null"}]}),
    }
    schema
}

fn has_null(forms: &Value) -> bool {
    forms.as_array().is_some_and(|forms| forms.contains(&json!({"type": "null"})))
}
