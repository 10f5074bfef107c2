//! Request bodies: the tables of the members that the API knows, beside the types that read the bodies. A member without a
//! type is known and not supported: only the zero of its kind is taken.

use super::Way::In;
use super::types::{Member, Parts, Types, or_null};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use syn::{Expr, ExprLit, Item, Lit};

type Made<T> = Result<T, Box<dyn Error>>;

/// The constants of the file of tables, by name.
pub struct Tables(BTreeMap<String, Expr>);

/// A kind of value, as the tables name it.
enum Shape<'t> {
    /// An object with a table of its own.
    Struct(String),
    /// A list or an object of values of one kind.
    Each(&'t Expr),
    /// Only the zero of some kind.
    Refused,
    /// Anything, without an effect.
    Taken,
    /// One of these texts.
    Only(Vec<String>),
    /// Nothing but true.
    True,
    /// Whatever the member's type is.
    Plain,
}

impl Tables {
    /// Reads the file of tables.
    pub fn read(path: &Path) -> Made<Tables> {
        let file = syn::parse_file(&std::fs::read_to_string(path)?)?;
        let constants = file.items.into_iter().filter_map(|item| match item {
            Item::Const(item) => Some((item.ident.to_string(), *item.expr)),
            Item::Static(item) => Some((item.ident.to_string(), *item.expr)),
            _ => None,
        });
        Ok(Tables(constants.collect()))
    }

    /// The schema of a body with this table and this type.
    pub fn body(&self, table: &str, name: &str, types: &Types, parts: &mut Parts) -> Made<Value> {
        let members = types.members(name)?;
        let mut properties = Map::new();
        for (field, expression) in self.fields(table)? {
            let member = members.iter().find(|member| member.names.contains(&field));
            properties.insert(field.clone(), self.value(name, expression, member, types, parts)?);
        }
        Ok(json!({"type": "object", "properties": properties, "additionalProperties": false}))
    }

    /// The schema of a member of the type `of`.
    fn value(&self, of: &str, shape: &Expr, member: Option<&Member>, types: &Types, parts: &mut Parts) -> Made<Value> {
        let only = |words: Vec<String>| {
            let all: Vec<Value> = words.into_iter().map(Value::from).chain([Value::Null]).collect();
            json!({"enum": all})
        };
        match (self.shape(shape)?, member) {
            (Shape::Refused, _) | (Shape::Plain, None) => Ok(json!({
                "enum": [null, false, 0, "", [], {}],
                "description": "Not supported: the zero of its kind is taken, and no other value.",
            })),
            (Shape::Taken, _) => Ok(json!({"description": "Taken, without an effect."})),
            (Shape::True, _) => Ok(json!({"enum": [true, null]})),
            (Shape::Only(words), _) => Ok(only(words)),
            (Shape::Struct(table), Some(member)) => self.nested(of, &table, member, types, parts),
            (Shape::Each(each), Some(member)) => match self.shape(each)? {
                Shape::Struct(table) => self.nested(of, &table, member, types, parts),
                _ => types.member(of, member, In, parts),
            },
            (Shape::Plain, Some(member)) => types.member(of, member, In, parts),
            (Shape::Struct(_) | Shape::Each(_), None) => Err(format!("{of}: a table without a type").into()),
        }
    }

    /// The schema of a member that holds objects with a table. The part of their type gets the members of the table.
    fn nested(&self, of: &str, table: &str, member: &Member, types: &Types, parts: &mut Parts) -> Made<Value> {
        let schema = types.member(of, member, In, parts)?;
        let inner = types.struct_of(&member.kind).ok_or_else(|| format!("{of}: {table} is of no struct"))?;
        let body = self.body(table, &inner, types, parts)?;
        parts.replace(&inner, body);
        Ok(or_null(schema))
    }

    /// The names and shapes of a table.
    fn fields(&self, table: &str) -> Made<Vec<(String, &Expr)>> {
        let Expr::Struct(of) = self.constant(table)? else { return Err(format!("{table} is no table").into()) };
        let parts = of.fields.iter().find(|field| matches!(&field.member, syn::Member::Named(n) if n == "parts"));
        let mut fields = Vec::new();
        for part in elements(&parts.ok_or("a table without parts")?.expr)? {
            let part = match part {
                Expr::Path(path) => self.constant(&path.path.require_ident()?.to_string())?,
                other => other,
            };
            for field in elements(part)? {
                let Expr::Tuple(pair) = field else { return Err(format!("{table}: no pair").into()) };
                let (Some(name), Some(shape)) = (pair.elems.first().and_then(text), pair.elems.iter().nth(1)) else {
                    return Err(format!("{table}: no name").into());
                };
                fields.push((name, shape));
            }
        }
        Ok(fields)
    }

    fn shape<'t>(&'t self, expression: &'t Expr) -> Made<Shape<'t>> {
        match expression {
            Expr::Reference(reference) => self.shape(&reference.expr),
            Expr::Path(path) => match path.path.require_ident()?.to_string().as_str() {
                "Refused" => Ok(Shape::Refused),
                "Taken" => Ok(Shape::Taken),
                "True" => Ok(Shape::True),
                "Text" | "TextOrNumber" | "Flag" | "Words" | "Unit" | "Pairs" => Ok(Shape::Plain),
                constant => self.shape(self.constant(constant)?),
            },
            Expr::Call(call) => {
                let Expr::Path(name) = &*call.func else { return Err("a shape".into()) };
                let first = call.args.first().ok_or("a shape of nothing")?;
                match name.path.require_ident()?.to_string().as_str() {
                    "Struct" => Ok(Shape::Struct(name_of(first)?)),
                    "List" | "Map" | "Ports" => Ok(Shape::Each(first)),
                    "Only" => Ok(Shape::Only(elements(first)?.into_iter().filter_map(text).collect())),
                    _ => Ok(Shape::Plain),
                }
            }
            _ => Err("an unknown shape".into()),
        }
    }

    fn constant(&self, name: &str) -> Made<&Expr> {
        self.0.get(name).ok_or_else(|| format!("http/src/schema.rs has no {name}").into())
    }
}

/// The name in `&NAME`.
fn name_of(expression: &Expr) -> Made<String> {
    match expression {
        Expr::Reference(reference) => name_of(&reference.expr),
        Expr::Path(path) => Ok(path.path.require_ident()?.to_string()),
        _ => Err("no name".into()),
    }
}

fn elements(list: &Expr) -> Made<Vec<&Expr>> {
    match list {
        Expr::Reference(reference) => elements(&reference.expr),
        Expr::Array(array) => Ok(array.elems.iter().collect()),
        _ => Err("no list".into()),
    }
}

fn text(literal: &Expr) -> Option<String> {
    match literal {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}
