//! Runs the nodes of a template on a document.

use super::functions;
use super::parser::{Base, Block, Kind, Node, Operand, Pipe};
use super::{Mistake, Subject, values};
use serde_json::{Map, Value};
use std::ops::ControlFlow;

/// A value, or the reason why there is none.
pub enum Found {
    Value(Value),
    /// A key that users choose, and that is not there.
    NoValue,
    /// The name of a field that the document does not have: a condition may ask for such a field, nothing else.
    Missing(String),
}

impl Found {
    fn is_true(&self) -> bool {
        matches!(self, Found::Value(value) if values::is_true(value))
    }

    fn value(self, operand: &Operand) -> Result<Value, Mistake> {
        match self {
            Found::Value(value) => Ok(value),
            Found::NoValue => Ok(Value::Null),
            Found::Missing(field) => {
                let whole = operand.name();
                let inside = if whole == format!(".{field}") { String::new() } else { format!(" in {whole}") };
                Err(Mistake::new(operand.at, format!("there is no field {field}{inside}")))
            }
        }
    }
}

/// The members of docker's documents whose keys are users' words: a key that is not there has no value, which is not an error.
const USERS_WORDS: &[&str] = &[
    "Labels",
    "Annotations",
    "Attributes",
    "Options",
    "DriverOpts",
    "Sysctls",
    "Tmpfs",
    "StorageOpt",
    "Networks",
    "Ports",
    "PortBindings",
    "ExposedPorts",
    "Volumes",
    "Config",
    "Data",
    "Containers",
    "Status",
];

/// How often the bodies of all ranges of a template run at most.
const MOST_TURNS: u32 = 1_000_000;
/// A text that a function makes has so many bytes at most: a template that doubles a text would only take memory.
const LONGEST_TEXT: usize = 4 << 20;
const LONGEST_OUTPUT: usize = 64 << 20;

/// How a `range` goes on after a node.
enum Leave {
    Break,
    Continue,
}

type Flow = Result<ControlFlow<Leave>, Mistake>;

/// The text of a template's nodes for a thing.
pub fn render(nodes: &[Node], subject: &Subject) -> Result<String, Mistake> {
    let mut run = Run { subject, variables: Vec::new(), output: String::new(), turns: 0 };
    // A break stands inside of a range only: the parser has seen to that.
    run.nodes(nodes, &subject.document).map(drop)?;
    Ok(run.output)
}

struct Run<'a> {
    subject: &'a Subject,
    variables: Vec<(String, Value)>,
    output: String,
    /// How often the bodies of ranges ran.
    turns: u32,
}

impl Run<'_> {
    /// Before each turn of a range. Errors: the template runs without a sensible end.
    fn bound(&mut self, at: usize) -> Result<(), Mistake> {
        self.turns += 1;
        match (self.turns > MOST_TURNS, self.output.len() > LONGEST_OUTPUT) {
            (true, _) => Err(Mistake::new(at, format!("range: more than {MOST_TURNS} turns"))),
            (_, true) => Err(Mistake::new(at, format!("range: more than {LONGEST_OUTPUT} bytes of output"))),
            _ => Ok(()),
        }
    }

    fn nodes(&mut self, nodes: &[Node], dot: &Value) -> Flow {
        for node in nodes {
            match node {
                Node::Text(text) => self.output.push_str(text),
                Node::Action(pipe) => self.action(pipe, dot)?,
                Node::Break => return Ok(ControlFlow::Break(Leave::Break)),
                Node::Continue => return Ok(ControlFlow::Break(Leave::Continue)),
                Node::Block(block) => {
                    let outside = self.variables.len();
                    let flow = self.block(block, dot)?;
                    self.variables.truncate(outside);
                    if flow.is_break() {
                        return Ok(flow);
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn action(&mut self, pipe: &Pipe, dot: &Value) -> Result<(), Mistake> {
        let found = self.pipe(pipe, dot)?;
        let has_none = matches!(found, Found::NoValue);
        let value = only(pipe, found)?;
        match pipe.variables.as_slice() {
            [] if has_none => self.output.push_str("<no value>"),
            [] if value.is_null() => self.output.push_str(null_text(pipe)),
            [] => self.output.push_str(&values::text(&value)),
            names => names.iter().for_each(|name| self.set(name, value.clone(), pipe.assigns)),
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: Value, assigns: bool) {
        match self.variables.iter_mut().rev().find(|(have, _)| assigns && have == name) {
            Some((_, have)) => *have = value,
            None => self.variables.push((name.to_owned(), value)),
        }
    }

    fn block(&mut self, block: &Block, dot: &Value) -> Flow {
        let found = self.pipe(&block.pipe, dot)?;
        if block.kind == Kind::Range {
            return self.range(block, found, dot);
        }
        let is_true = found.is_true();
        let value = match found {
            Found::Value(value) => value,
            Found::NoValue | Found::Missing(_) => Value::Null,
        };
        for name in &block.pipe.variables {
            self.set(name, value.clone(), block.pipe.assigns);
        }
        match is_true {
            true if block.kind == Kind::With => self.nodes(&block.body, &value),
            true => self.nodes(&block.body, dot),
            false => self.nodes(&block.otherwise, dot),
        }
    }

    fn range(&mut self, block: &Block, found: Found, dot: &Value) -> Flow {
        let items: Box<dyn Iterator<Item = (Value, Value)>> = match found {
            Found::Missing(_) | Found::NoValue | Found::Value(Value::Null) => Box::new(std::iter::empty()),
            Found::Value(Value::Array(items)) => {
                Box::new(items.into_iter().enumerate().map(|(at, item)| (at.into(), item)))
            }
            Found::Value(Value::Object(fields)) => Box::new(fields.into_iter().map(|(key, value)| (key.into(), value))),
            Found::Value(Value::Number(count)) if count.is_i64() => {
                Box::new((0..count.as_i64().unwrap_or(0)).map(|at| (at.into(), at.into())))
            }
            Found::Value(other) => {
                return Err(Mistake::new(block.pipe.at, format!("range over {}", values::kind(&other))));
            }
        };
        let (outside, mut any) = (self.variables.len(), false);
        for (key, item) in items {
            any = true;
            self.bound(block.pipe.at)?;
            match block.pipe.variables.as_slice() {
                [] => {}
                [one] => self.set(one, item.clone(), block.pipe.assigns),
                [first, second, ..] => {
                    self.set(first, key, block.pipe.assigns);
                    self.set(second, item.clone(), block.pipe.assigns);
                }
            }
            let flow = self.nodes(&block.body, &item)?;
            self.variables.truncate(outside);
            if matches!(flow, ControlFlow::Break(Leave::Break)) {
                break;
            }
        }
        if any { Ok(ControlFlow::Continue(())) } else { self.nodes(&block.otherwise, dot) }
    }

    fn pipe(&mut self, pipe: &Pipe, dot: &Value) -> Result<Found, Mistake> {
        let mut last = None;
        for (at, command) in pipe.commands.iter().enumerate() {
            let found = self.command(command, last, dot)?;
            last = match (found, command.first()) {
                (missing @ Found::Missing(_), Some(operand)) if at + 1 < pipe.commands.len() => {
                    Some(Found::Value(missing.value(operand)?))
                }
                (found, _) => Some(found),
            };
        }
        last.ok_or_else(|| Mistake::new(pipe.at, "a value is needed"))
    }

    /// A command on the value of the one before it.
    fn command(&mut self, command: &[Operand], piped: Option<Found>, dot: &Value) -> Result<Found, Mistake> {
        let Some((first, rest)) = command.split_first() else { return Ok(Found::Value(Value::Null)) };
        if let Base::Function(name) = &first.base {
            return self.call(name, first, rest, piped, dot);
        }
        if rest.is_empty() && piped.is_none() {
            return self.operand(first, dot);
        }
        match (self.subject.labels.as_ref(), first.name().as_str(), rest, &piped) {
            (Some(labels), ".Label" | "$.Label", [one], None) => {
                let name = self.operand(one, dot)?.value(one)?;
                self.label(labels, &values::text(&name))
            }
            _ => Err(Mistake::new(first.at, format!("{} takes no arguments", first.name()))),
        }
    }

    fn label(&self, labels: &Map<String, Value>, name: &str) -> Result<Found, Mistake> {
        let title = || name.rsplit('.').next().unwrap_or_default().replace(['-', '_'], " ").into();
        let value = if self.subject.titles { Some(title()) } else { labels.get(name).cloned() };
        Ok(Found::Value(value.unwrap_or_else(|| "".into())))
    }

    fn call(
        &mut self,
        name: &str,
        function: &Operand,
        rest: &[Operand],
        piped: Option<Found>,
        dot: &Value,
    ) -> Result<Found, Mistake> {
        // Conditions take a field that is not there.
        if matches!(name, "and" | "or" | "not") {
            return self.logic(name, function, rest, piped, dot);
        }
        let mut arguments = Vec::new();
        for operand in rest {
            let found = self.operand(operand, dot)?;
            arguments.push(found.value(operand)?);
        }
        if let Some(found) = piped {
            arguments.push(found.value(function)?);
        }
        if self.subject.titles && functions::leaves_titles(name) {
            return Ok(Found::Value(arguments.into_iter().next().unwrap_or_default()));
        }
        let value = functions::call(name, &arguments).map_err(|text| Mistake::new(function.at, text))?;
        if value.as_str().is_some_and(|text| text.len() > LONGEST_TEXT) {
            return Err(Mistake::new(function.at, format!("{name}: a text of more than {LONGEST_TEXT} bytes")));
        }
        fields_of(function, value)
    }

    /// `and` and `or` give the argument that decides, and do not look at those behind it.
    fn logic(
        &mut self,
        name: &str,
        function: &Operand,
        rest: &[Operand],
        piped: Option<Found>,
        dot: &Value,
    ) -> Result<Found, Mistake> {
        let mut last = None;
        for operand in rest {
            let found = self.operand(operand, dot)?;
            let decides = name != "not" && found.is_true() == (name == "or");
            last = Some(found);
            if decides {
                return last.ok_or_else(|| Mistake::new(function.at, "no argument"));
            }
        }
        let count = rest.len() + usize::from(piped.is_some());
        if count == 0 || (name == "not" && count > 1) {
            return Err(Mistake::new(function.at, format!("{name} needs an argument")));
        }
        let found = piped.or(last).unwrap_or(Found::Value(Value::Null));
        Ok(if name == "not" { Found::Value((!found.is_true()).into()) } else { found })
    }

    fn operand(&mut self, operand: &Operand, dot: &Value) -> Result<Found, Mistake> {
        let value = match &operand.base {
            Base::Dot => return field(operand, dot),
            Base::Variable(name) if name.is_empty() => return field(operand, &self.subject.document),
            Base::Variable(name) => {
                let found = self.variables.iter().rev().find(|(have, _)| have == name);
                found.map(|(_, value)| value.clone()).unwrap_or_default()
            }
            Base::Literal(value) => value.clone(),
            Base::Nil => Value::Null,
            Base::Function(name) => functions::call(name, &[]).map_err(|text| Mistake::new(operand.at, text))?,
            Base::Group(pipe) => match self.pipe(pipe, dot)? {
                Found::Value(value) => value,
                none if operand.fields.is_empty() => return Ok(none),
                Found::NoValue => Value::Null,
                Found::Missing(name) => return Err(missing_inside(operand, &name)),
            },
        };
        fields_of(operand, value)
    }
}

/// The value of a pipe. Errors: a field is missing.
fn only(pipe: &Pipe, found: Found) -> Result<Value, Mistake> {
    match (found, pipe.commands.last().and_then(|command| command.first())) {
        (Found::Value(value), _) => Ok(value),
        (none, Some(operand)) => none.value(operand),
        (_, None) => Err(Mistake::new(pipe.at, "a value is needed")),
    }
}

/// The members of docker's documents that are lists, also when they are null.
const LISTS: &[&str] = &[
    "Aliases",
    "Binds",
    "CapAdd",
    "CapDrop",
    "Cmd",
    "DeviceCgroupRules",
    "Devices",
    "Dns",
    "DnsOptions",
    "DnsSearch",
    "Entrypoint",
    "Env",
    "ExecIDs",
    "ExtraHosts",
    "GroupAdd",
    "Links",
    "MaskedPaths",
    "Mounts",
    "OnBuild",
    "ReadonlyPaths",
    "RepoDigests",
    "RepoTags",
    "SecurityOpt",
    "Shell",
    "Ulimits",
    "VolumesFrom",
    "Warnings",
];
/// The members that are maps.
const MAPS: &[&str] = &[
    "Annotations",
    "DriverOpts",
    "ExposedPorts",
    "Labels",
    "Networks",
    "Options",
    "PortBindings",
    "Ports",
    "StorageOpt",
    "Sysctls",
    "Tmpfs",
    "Volumes",
];

/// The text of null: docker's command knows the type of each field.
fn null_text(pipe: &Pipe) -> &'static str {
    let last = pipe.commands.last().and_then(|command| command.first());
    match last.and_then(|operand| operand.fields.last()).map(String::as_str) {
        Some(name) if LISTS.contains(&name) => "[]",
        Some(name) if MAPS.contains(&name) => "map[]",
        _ => "<nil>",
    }
}

fn fields_of(operand: &Operand, value: Value) -> Result<Found, Mistake> {
    if operand.fields.is_empty() { Ok(Found::Value(value)) } else { field(operand, &value) }
}

fn missing_inside(operand: &Operand, field: &str) -> Mistake {
    Mistake::new(operand.at, format!("{}: there is no field {field}", operand.name()))
}

/// The field of a document that an operand names; the spelling may differ in capitals, because docker's templates have Go's
/// names, and its documents others (`ID`, `Id`).
fn field(operand: &Operand, from: &Value) -> Result<Found, Mistake> {
    let mut value = from;
    let mut holder = "";
    for (at, name) in operand.fields.iter().enumerate() {
        let is_last = at + 1 == operand.fields.len();
        let fields = match value {
            Value::Object(fields) => fields,
            other => {
                let what = if holder.is_empty() { "the value" } else { holder };
                let text = format!("{}: {what} is {}, which has no fields", operand.name(), values::kind(other));
                return Err(Mistake::new(operand.at, text));
            }
        };
        let spelled = || fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        value = match fields.get(name).or_else(spelled) {
            Some(value) => value,
            None if USERS_WORDS.contains(&holder) && is_last => return Ok(Found::NoValue),
            None if is_last => return Ok(Found::Missing(name.clone())),
            None => return Err(missing_inside(operand, name)),
        };
        holder = name;
    }
    Ok(Found::Value(value.clone()))
}
