//! The nodes of a template, from its words.

use super::functions;
use super::lexer::{self, Piece, Token, Word};
use super::{Mistake, values};
use serde_json::Value;
use std::vec::IntoIter;

/// Parentheses and blocks in one another: each level takes a piece of the stack.
const DEPTH: usize = 100;

/// A part of a template.
pub enum Node {
    /// Printed as it stands.
    Text(String),
    /// A value to print, or to set a variable to.
    Action(Pipe),
    /// `if`, `with` or `range`.
    Block(Box<Block>),
    /// `{{break}}`
    Break,
    /// `{{continue}}`
    Continue,
}

/// The kinds of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    If,
    With,
    Range,
}

/// A block with its condition, its nodes, and those behind `else`.
pub struct Block {
    pub kind: Kind,
    pub pipe: Pipe,
    pub body: Vec<Node>,
    pub otherwise: Vec<Node>,
}

/// Commands, each of which gets the value of the one before as its last argument; and the variables that take the result.
pub struct Pipe {
    pub at: usize,
    pub variables: Vec<String>,
    /// `=`: the variables are there already.
    pub assigns: bool,
    pub commands: Vec<Vec<Operand>>,
}

/// A value with the fields behind it.
pub struct Operand {
    pub at: usize,
    pub base: Base,
    pub fields: Vec<String>,
}

/// The beginning of a value.
pub enum Base {
    Dot,
    Variable(String),
    Literal(Value),
    Nil,
    Function(String),
    Group(Box<Pipe>),
}

impl Operand {
    /// The value as the template has it.
    pub fn name(&self) -> String {
        let base = match &self.base {
            Base::Variable(name) => format!("${name}"),
            Base::Function(name) => name.clone(),
            Base::Literal(value) => value.to_string(),
            Base::Nil => "nil".into(),
            Base::Group(_) => "(...)".into(),
            Base::Dot if self.fields.is_empty() => ".".into(),
            Base::Dot => String::new(),
        };
        self.fields.iter().fold(base, |name, field| format!("{name}.{field}"))
    }
}

/// Reads a template.
pub fn parse(source: &str) -> Result<Vec<Node>, Mistake> {
    let mut parser = Parser { pieces: lexer::cut(source)?.into_iter(), variables: Vec::new(), ranges: 0, depth: 0 };
    match parser.nodes()? {
        (nodes, None) => Ok(nodes),
        (_, Some(end)) => {
            Err(Mistake::new(end.at, format!("{{{{{}}}}} without {{{{if}}}}, {{{{range}}}} or {{{{with}}}}", end.word)))
        }
    }
}

struct Parser {
    pieces: IntoIter<Piece>,
    /// The variables that are known here.
    variables: Vec<String>,
    /// How many `range` blocks are open.
    ranges: usize,
    depth: usize,
}

/// An `end` or `else`, with the words behind it.
struct End {
    at: usize,
    word: String,
    rest: Words,
}

impl Parser {
    /// Nodes up to the next `end` or `else`.
    fn nodes(&mut self) -> Result<(Vec<Node>, Option<End>), Mistake> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let (at, tokens) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(at, tokens) => (at, tokens),
            };
            let mut words = Words { at, tokens: tokens.into_iter().peekable() };
            match words.keyword() {
                Some(word) if word == "end" || word == "else" => {
                    return Ok((nodes, Some(End { at, word, rest: words })));
                }
                Some(word) => nodes.push(self.keyword(at, &word, words)?),
                None => nodes.push(Node::Action(self.whole_pipe(words, "{{")?)),
            }
        }
        Ok((nodes, None))
    }

    fn keyword(&mut self, at: usize, word: &str, words: Words) -> Result<Node, Mistake> {
        match word {
            "if" => self.block(at, Kind::If, words),
            "with" => self.block(at, Kind::With, words),
            "range" => self.block(at, Kind::Range, words),
            "break" | "continue" if self.ranges == 0 => {
                Err(Mistake::new(at, format!("{{{{{word}}}}} outside of {{{{range}}}}")))
            }
            "break" => words.finished().map(|()| Node::Break),
            "continue" => words.finished().map(|()| Node::Continue),
            other => Err(Mistake::new(at, format!("{other} is not supported"))),
        }
    }

    fn block(&mut self, at: usize, kind: Kind, words: Words) -> Result<Node, Mistake> {
        self.deeper(at)?;
        let outside = self.variables.len();
        let name = format!("{kind:?}").to_lowercase();
        let pipe = self.whole_pipe(words, &name)?;
        self.ranges += usize::from(kind == Kind::Range);
        let (body, end) = self.nodes()?;
        self.ranges -= usize::from(kind == Kind::Range);
        let no_end = || Mistake::new(at, format!("{{{{{name}}}}} without {{{{end}}}}"));
        let end = end.ok_or_else(no_end)?;
        let otherwise = match end.word.as_str() {
            "else" => self.otherwise(end, kind)?.ok_or_else(no_end)?,
            _ => end.rest.finished().map(|()| Vec::new())?,
        };
        self.variables.truncate(outside);
        self.depth -= 1;
        Ok(Node::Block(Box::new(Block { kind, pipe, body, otherwise })))
    }

    /// The nodes behind an `else`; `None`: there is no `end`. The `end` behind `else if` ends both.
    fn otherwise(&mut self, end: End, kind: Kind) -> Result<Option<Vec<Node>>, Mistake> {
        let End { at, mut rest, .. } = end;
        match (rest.keyword().as_deref(), kind) {
            (Some("if"), Kind::If) => return self.block(at, Kind::If, rest).map(|node| Some(vec![node])),
            (Some("with"), Kind::With) => return self.block(at, Kind::With, rest).map(|node| Some(vec![node])),
            (Some(word), _) => return Err(Mistake::new(at, format!("{word} cannot stand behind this else"))),
            (None, _) => rest.finished()?,
        }
        match self.nodes()? {
            (nodes, Some(end)) if end.word == "end" => end.rest.finished().map(|()| Some(nodes)),
            (_, Some(end)) => Err(Mistake::new(end.at, "a second {{else}}")),
            (_, None) => Ok(None),
        }
    }

    fn deeper(&mut self, at: usize) -> Result<(), Mistake> {
        self.depth += 1;
        if self.depth > DEPTH { Err(Mistake::new(at, "the template is nested too deep")) } else { Ok(()) }
    }

    /// A pipe that is all that remains of an action.
    fn whole_pipe(&mut self, mut words: Words, before: &str) -> Result<Pipe, Mistake> {
        let pipe = self.pipe(&mut words, before)?;
        words.finished().map(|()| pipe)
    }

    fn pipe(&mut self, words: &mut Words, before: &str) -> Result<Pipe, Mistake> {
        let (variables, assigns) = self.declared(words)?;
        let at = words.place();
        let mut commands = vec![self.command(words, before)?];
        while words.take_sign("|") {
            commands.push(self.command(words, "|")?);
        }
        if !assigns {
            self.variables.extend(variables.iter().cloned());
        }
        Ok(Pipe { at, variables, assigns, commands })
    }

    /// The variables before `:=` or `=`, and whether they are assigned.
    fn declared(&self, words: &mut Words) -> Result<(Vec<String>, bool), Mistake> {
        let mut ahead = words.tokens.clone();
        let mut names = Vec::new();
        let assigns = loop {
            let Some(Word::Variable(name)) = ahead.next().map(|token| token.word) else {
                return Ok((Vec::new(), false));
            };
            names.push(name);
            match ahead.next().map(|token| token.word) {
                Some(Word::Sign(",")) if names.len() < 2 => {}
                Some(Word::Sign(":=")) => break false,
                Some(Word::Sign("=")) => break true,
                _ => return Ok((Vec::new(), false)),
            }
        };
        if let Some(name) = names.iter().find(|name| assigns && !self.variables.contains(name)) {
            return Err(Mistake::new(words.place(), format!("there is no variable ${name}")));
        }
        words.tokens = ahead;
        Ok((names, assigns))
    }

    fn command(&mut self, words: &mut Words, before: &str) -> Result<Vec<Operand>, Mistake> {
        let mut operands = Vec::new();
        while let Some(operand) = self.operand(words)? {
            operands.push(operand);
        }
        match operands.first().map(|operand| &operand.base) {
            None => Err(Mistake::new(words.place(), format!("a value is needed behind {before}"))),
            Some(Base::Nil) => Err(Mistake::new(operands[0].at, "nil alone is not a value")),
            Some(_) => Ok(operands),
        }
    }

    /// The next value; `None` at a sign that ends the command.
    fn operand(&mut self, words: &mut Words) -> Result<Option<Operand>, Mistake> {
        let is_end = |token: &Token| matches!(token.word, Word::Sign(sign) if sign != "(");
        let Some(token) = words.tokens.next_if(|token| !is_end(token)) else { return Ok(None) };
        let at = token.at;
        let mut fields = Vec::new();
        let base = match token.word {
            Word::Dot => Base::Dot,
            Word::Field(name) => {
                fields.push(name);
                Base::Dot
            }
            Word::Variable(name) if name.is_empty() || self.variables.contains(&name) => Base::Variable(name),
            Word::Variable(name) => return Err(Mistake::new(at, format!("there is no variable ${name}"))),
            Word::Text(text) => Base::Literal(Value::String(text)),
            Word::Number(text) => match values::number(&text) {
                Some(number) => Base::Literal(number),
                None => return Err(Mistake::new(at, format!("{text} is not a number"))),
            },
            Word::Name(name) => named(at, name)?,
            Word::Sign(_) => self.group(at, words)?,
        };
        while let Some(Word::Field(name)) = words.tokens.next_if(continues).map(|token| token.word) {
            fields.push(name);
        }
        Ok(Some(Operand { at, base, fields }))
    }

    /// A pipe in parentheses, behind the first of them.
    fn group(&mut self, at: usize, words: &mut Words) -> Result<Base, Mistake> {
        self.deeper(at)?;
        let pipe = self.pipe(words, "(")?;
        self.depth -= 1;
        match words.take_sign(")") {
            true => Ok(Base::Group(Box::new(pipe))),
            false => Err(Mistake::new(at, "( without )")),
        }
    }
}

/// Whether a word is a field of the value right before it.
fn continues(token: &Token) -> bool {
    !token.apart && matches!(token.word, Word::Field(_))
}

fn named(at: usize, name: String) -> Result<Base, Mistake> {
    match name.as_str() {
        "true" => Ok(Base::Literal(Value::Bool(true))),
        "false" => Ok(Base::Literal(Value::Bool(false))),
        "nil" => Ok(Base::Nil),
        name if functions::is_one(name) => Ok(Base::Function(name.to_owned())),
        _ => Err(Mistake::new(at, format!("there is no function {name}"))),
    }
}

/// The words by which an action is not a value.
const KEYWORDS: &[&str] = &["if", "else", "end", "range", "with", "break", "continue", "define", "template", "block"];

/// The words of an action that are left.
struct Words {
    /// The offset of the action.
    at: usize,
    tokens: std::iter::Peekable<IntoIter<Token>>,
}

impl Words {
    /// The keyword that is the next word.
    fn keyword(&mut self) -> Option<String> {
        let is_one = |token: &Token| matches!(&token.word, Word::Name(name) if KEYWORDS.contains(&name.as_str()));
        match self.tokens.next_if(is_one)?.word {
            Word::Name(name) => Some(name),
            _ => None,
        }
    }

    fn take_sign(&mut self, sign: &'static str) -> bool {
        self.tokens.next_if(|token| token.word == Word::Sign(sign)).is_some()
    }

    /// The offset of the next word, or of the action.
    fn place(&mut self) -> usize {
        self.tokens.peek().map_or(self.at, |token| token.at)
    }

    fn finished(mut self) -> Result<(), Mistake> {
        match self.tokens.next() {
            None => Ok(()),
            Some(Token { at, word: Word::Sign(sign), .. }) => Err(Mistake::new(at, format!("unexpected {sign}"))),
            Some(Token { at, .. }) => Err(Mistake::new(at, "a word too many")),
        }
    }
}
