//! Query documents: their members are those that a function names to `Query::new`, and the kind of each is that of the
//! method which reads it.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprMethodCall, ItemFn, Lit};

/// The schema of filters: the values of each name, as a list or as the older object of value to true.
pub const FILTERS: &str = r#"{"type": "object", "additionalProperties": {"anyOf": [
    {"type": "string"}, {"type": "array", "items": {"type": "string"}},
    {"type": "object", "additionalProperties": {"type": "boolean"}}]}}"#;

/// The queries by function.
pub struct Queries(BTreeMap<String, Query>);

#[derive(Default)]
struct Query {
    names: Vec<String>,
    /// The methods that read each member.
    read: BTreeMap<String, Vec<String>>,
}

impl Queries {
    /// Reads the queries of the files of a directory.
    pub fn read(directory: &Path) -> Result<Queries, Box<dyn Error>> {
        let mut queries = Queries(BTreeMap::new());
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                queries.visit_file(&syn::parse_file(&std::fs::read_to_string(&path)?)?);
            }
        }
        Ok(queries)
    }

    /// The schema of the query of a function.
    pub fn of(&self, function: &str) -> Result<Value, Box<dyn Error>> {
        let query = self.0.get(function).ok_or_else(|| format!("{function} reads no query"))?;
        let member = |name: &String| Ok((name.clone(), kinds(query.read.get(name).map_or(&[][..], Vec::as_slice))?));
        let properties = query.names.iter().map(member).collect::<Result<Map<_, _>, Box<dyn Error>>>()?;
        Ok(json!({ "type": "object", "properties": properties, "additionalProperties": false }))
    }
}

impl<'ast> Visit<'ast> for Queries {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let mut query = Query::default();
        query.visit_block(&function.block);
        if !query.names.is_empty() {
            self.0.insert(function.sig.ident.to_string(), query);
        }
    }
}

impl<'ast> Visit<'ast> for Query {
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if is_query_new(&call.func)
            && let Some(names) = call.args.iter().nth(2).and_then(texts)
        {
            self.names.extend(names);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        // `let known = ["a", "b"];` of a list that is too long for its place.
        if self.names.is_empty()
            && let Some(names) = local.init.as_ref().and_then(|init| texts(&init.expr))
            && matches!(&local.pat, syn::Pat::Ident(name) if name.ident == "known")
        {
            self.names.extend(names);
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let method = call.method.to_string();
        match (call.args.first().and_then(text), method.as_str()) {
            (Some(name), "flag" | "number" | "text" | "texts" | "time_ns") => {
                self.read.entry(name).or_default().push(method);
            }
            (None, "filters") => self.read.entry(method.clone()).or_default().push(method),
            _ => {}
        }
        visit::visit_expr_method_call(self, call);
    }
}

fn is_query_new(function: &Expr) -> bool {
    let Expr::Path(path) = function else { return false };
    let names: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    names == ["Query", "new"]
}

/// The texts of `&["a", "b"]` or `["a", "b"]`.
fn texts(list: &Expr) -> Option<Vec<String>> {
    match list {
        Expr::Reference(reference) => texts(&reference.expr),
        Expr::Array(array) => array.elems.iter().map(text).collect(),
        _ => None,
    }
}

fn text(literal: &Expr) -> Option<String> {
    match literal {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// The schema of a member that these methods read: each takes its own kind, the text of a URL, and null.
fn kinds(methods: &[String]) -> Result<Value, Box<dyn Error>> {
    let mut kinds: Vec<Value> = Vec::new();
    for method in methods {
        match method.as_str() {
            "flag" => kinds.extend([json!({"type": ["boolean", "string"]}), json!({"enum": [0, 1]})]),
            "number" => kinds.push(json!({"type": ["integer", "string"]})),
            "text" => kinds.push(json!({"type": "string"})),
            "texts" => kinds.extend([json!({"type": "string"}), json!({"type": "array", "items": {"type": "string"}})]),
            "time_ns" => kinds.push(json!({"type": ["number", "string"]})),
            "filters" => kinds.extend([serde_json::from_str(FILTERS)?, json!({"type": "string"})]),
            other => return Err(format!("no schema of what {other} reads").into()),
        }
    }
    kinds.dedup();
    if kinds.is_empty() {
        // Taken, and without an effect.
        return Ok(json!({}));
    }
    kinds.push(json!({"type": "null"}));
    Ok(json!({ "anyOf": kinds }))
}
