//! Instructions: a line's word, flags and arguments, checked as far as text can be.

use super::expand::split_words;
use super::go_format::{duration, quoted};
use super::lines::{Heredoc, Line, Source};
use super::run_mount::RunMount;
use crate::error::{Error, Result};
use crate::model::Healthcheck;
use crate::order::Order as _;

/// The part of a build file that begins with FROM.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// As it stands in the file.
    pub(crate) code: String,
    pub(crate) base: String,
    /// The stage's name, lower case; may be empty.
    pub(crate) name: String,
    pub(crate) platform: String,
    pub(crate) steps: Vec<Step>,
}

/// One instruction of a stage.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// As it stands in the file, on one line.
    pub(crate) code: String,
    /// Where it begins, counted from 1.
    pub(crate) line: usize,
    pub(crate) instruction: Instruction,
}

/// The meaning of an instruction, before variables are put in.
#[derive(Debug, Clone)]
pub(crate) enum Instruction {
    Add(Copy),
    Arg(Vec<(String, Option<String>)>),
    Cmd(Command),
    Copy(Copy),
    Entrypoint(Command),
    Env(Vec<(String, String)>),
    Expose(Vec<String>),
    Healthcheck(Healthcheck),
    /// `literal`: given as a parameter of the build, nothing is put in.
    Label {
        pairs: Vec<(String, String)>,
        literal: bool,
    },
    Maintainer(String),
    /// An instruction of another builder: an error once the build reaches it.
    NotHere(String),
    OnBuild(String),
    Run(Run),
    Shell(Vec<String>),
    StopSignal(String),
    User(String),
    Volume(Vec<String>),
    Workdir(String),
}

impl Instruction {
    /// Whether it may do more than change the configuration.
    pub(crate) fn counts(&self) -> bool {
        use Instruction::{Add, Copy, NotHere, Run, Workdir};
        matches!(self, Add(_) | Copy(_) | NotHere(_) | Run(_) | Workdir(_))
    }
}

/// A command line: words as they are, or one text for the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) words: Vec<String>,
    pub(crate) shell: bool,
}

/// A command that a build runs.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) command: Command,
    pub(crate) network: RunNetwork,
    /// `--mount`, as they are written: variables are put in before they are read.
    pub(crate) mounts: Vec<String>,
    /// A heredoc that names its interpreter: the command is its place in [`PIPES`].
    pub(crate) program: Option<Heredoc>,
}

/// The directory in which a step has the heredoc that names its interpreter, as with BuildKit.
pub(crate) const PIPES: &str = "/dev/pipes";

/// `RUN --network`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RunNetwork {
    /// As the build asks.
    #[default]
    Default,
    None,
    /// The host's, which a build file alone cannot have: the build must ask for it, too.
    Host,
}

/// Sources, destination (the last) and flags of COPY and ADD.
#[derive(Debug, Clone, Default)]
pub(crate) struct Copy {
    pub(crate) sources: Vec<String>,
    pub(crate) destination: String,
    pub(crate) from: String,
    pub(crate) chown: String,
    /// Octal digits; may be empty.
    pub(crate) chmod: String,
    /// ADD: the digest that a download must have, or the commit of a repository; may be empty.
    pub(crate) checksum: String,
    /// Files that are left out, as patterns of an ignore file.
    pub(crate) excluded: Vec<String>,
    /// ADD: git's own files of a repository come along, if the flag is there.
    #[cfg_attr(not(feature = "registry"), allow(dead_code))]
    pub(crate) keep_git_dir: Option<bool>,
    /// Sources keep the directories above them.
    pub(crate) parents: bool,
    /// The layer holds apart from the image below: no link of that image is on the way to the destination.
    pub(crate) link: bool,
    /// Sources that stand in the build file.
    pub(crate) documents: Vec<Heredoc>,
}

/// Reads a whole file: its stages, and the ARGs before the first.
pub(crate) fn parse_stages(source: &Source) -> Result<(Vec<Step>, Vec<Stage>)> {
    // All lines are split before any is understood: what is wrong with a line's form is reported first.
    let nodes = source.lines.iter().map(|line| Node::read(line, source.escape)).collect::<Result<Vec<_>>>();
    let nodes = nodes.map_err(|error| error.context("failed to parse Dockerfile"))?;
    let (mut before, mut stages) = (Vec::new(), Vec::<Stage>::new());
    for (node, line) in nodes.into_iter().zip(&source.lines) {
        let named = |error: Error| error.context(format_args!("dockerfile parse error line {}", line.number));
        if node.word == "FROM" {
            stages.push(node.stage().map_err(named)?);
            continue;
        }
        let step = node.step(source.escape).map_err(named)?;
        match (stages.last_mut(), &step.instruction) {
            (Some(stage), _) => stage.steps.push(step),
            (None, Instruction::Arg(_)) => before.push(step),
            (None, _) => return Err(Error::invalid("no build stage in current context")),
        }
    }
    Ok((before, stages))
}

/// Reads one instruction: a trigger, a change. Errors: the text is not an instruction, or is FROM.
pub(crate) fn parse_one(text: &str) -> Result<Step> {
    let source = Source::read(text.as_bytes())?;
    let [line] = source.lines.as_slice() else {
        return Err(Error::invalid("onbuild trigger should be a single expression"));
    };
    Node::read(line, source.escape)?.step(source.escape)
}

/// The instructions that commit and import take as changes.
const CHANGES: [&str; 12] = [
    "CMD",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "HEALTHCHECK",
    "LABEL",
    "ONBUILD",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// Reads lines that change a configuration, and the character that escapes in them. Errors: another instruction.
pub(crate) fn parse_changes(text: &str) -> Result<(Vec<Instruction>, char)> {
    let source = Source::read(text.as_bytes())?;
    let nodes = source.lines.iter().map(|line| Node::read(line, source.escape)).collect::<Result<Vec<_>>>()?;
    if let Some(other) = nodes.iter().find(|node| !CHANGES.contains(&node.word.as_str())) {
        return Err(Error::invalid(format!("{} is not a valid change command", other.word.to_ascii_lowercase())));
    }
    let instructions = nodes.into_iter().map(|node| node.instruction(source.escape)).collect::<Result<_>>()?;
    Ok((instructions, source.escape))
}

/// A line, split.
struct Node<'a> {
    /// The instruction, upper case.
    word: String,
    flags: Vec<String>,
    rest: &'a str,
    args: Vec<String>,
    json: bool,
    line: &'a Line,
}

const ARRAY: &str = "when using JSON array syntax, arrays must be comprised of strings only";

impl Node<'_> {
    fn read(line: &Line, escape: char) -> Result<Node<'_>> {
        let text = line.text.trim();
        let (word, rest) = text.split_once(is_blank).unwrap_or((text, ""));
        let (flags, rest) = take_flags(rest.trim_start_matches(is_blank), escape);
        let mut node =
            Node { word: word.to_ascii_uppercase(), flags, rest: rest.trim(), args: Vec::new(), json: false, line };
        node.split(escape)?;
        Ok(node)
    }

    fn split(&mut self, escape: char) -> Result<()> {
        let rest = self.rest;
        let whole = || if rest.is_empty() { Vec::new() } else { vec![rest.to_owned()] };
        let blanks = || rest.split(is_blank).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        match self.word.as_str() {
            "ADD" | "COPY" | "VOLUME" => match array(rest)? {
                Some(words) => (self.args, self.json) = (words, true),
                None => self.args = blanks(),
            },
            "CMD" | "ENTRYPOINT" | "RUN" | "SHELL" => match array(rest)? {
                Some(words) => (self.args, self.json) = (words, true),
                None => self.args = whole(),
            },
            "HEALTHCHECK" => {
                let (kind, command) = rest.split_once(is_blank).unwrap_or((rest, ""));
                let command = command.trim_start();
                if !kind.is_empty() {
                    self.args.push(kind.to_owned());
                }
                match array(command)? {
                    Some(words) => {
                        self.json = true;
                        self.args.extend(words);
                    }
                    None if command.is_empty() => {}
                    None => self.args.push(command.to_owned()),
                }
            }
            "ENV" | "LABEL" => self.args = pairs(&self.word, rest, escape)?,
            "ARG" => self.args = split_words(rest, escape),
            "EXPOSE" | "FROM" => self.args = blanks(),
            "ONBUILD" if !rest.is_empty() => {
                // The form of a trigger is checked like that of any line.
                let inner = Line { text: rest.to_owned(), ..self.line.clone() };
                self.args = vec![Node::read(&inner, escape)?.word];
            }
            // Unknown instructions are refused later, with their line.
            _ => self.args = whole(),
        }
        Ok(())
    }

    fn stage(self) -> Result<Stage> {
        let mut flags = Flags::read(&self.flags, &["platform"])?;
        let name = match self.args.as_slice() {
            [_] => String::new(),
            [_, word, name] if word.eq_ignore_ascii_case("as") => {
                let name = name.to_lowercase();
                let inner = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '_' | '.');
                if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(inner) {
                    return Err(Error::invalid(format!(
                        "invalid name for build stage: {}, name can't start with a number or contain symbols",
                        quoted(&name)
                    )));
                }
                name
            }
            _ => return Err(Error::invalid("FROM requires either one or three arguments")),
        };
        Ok(Stage {
            code: self.line.text.trim().to_owned(),
            base: self.args[0].clone(),
            name,
            platform: flags.take("platform"),
            steps: Vec::new(),
        })
    }

    fn step(self, escape: char) -> Result<Step> {
        let code = self.line.text.trim().to_owned();
        Ok(Step { code, line: self.line.number, instruction: self.instruction(escape)? })
    }

    fn instruction(mut self, escape: char) -> Result<Instruction> {
        let word = self.word.clone();
        let none = || Flags::read(&self.flags, &[]).map(drop);
        Ok(match word.as_str() {
            "ADD" | "COPY" => return self.copy(),
            "ARG" => Instruction::Arg(self.variables()?),
            "CMD" => none().map(|()| Instruction::Cmd(self.command()))?,
            "ENTRYPOINT" => none().map(|()| Instruction::Entrypoint(self.command()))?,
            "ENV" => {
                none()?;
                Instruction::Env(self.pairs()?)
            }
            "EXPOSE" => {
                self.some()?;
                none()?;
                self.args.order();
                Instruction::Expose(self.args)
            }
            "HEALTHCHECK" => self.healthcheck()?,
            "LABEL" => {
                none()?;
                Instruction::Label { pairs: self.pairs()?, literal: false }
            }
            "MAINTAINER" => {
                let text = self.exactly_one()?;
                none().map(|()| Instruction::Maintainer(text))?
            }
            "ONBUILD" => {
                self.some()?;
                none()?;
                Instruction::OnBuild(self.trigger()?)
            }
            "RUN" => match Flags::read_run(&self.flags)? {
                Err(why) => Instruction::NotHere(why),
                Ok((network, mounts)) => {
                    let (command, program) = self.script(escape);
                    Instruction::Run(Run { command, network, mounts, program })
                }
            },
            "SHELL" => {
                none()?;
                Instruction::Shell(self.shell()?)
            }
            "STOPSIGNAL" => Instruction::StopSignal(self.exactly_one()?),
            "USER" => {
                let text = self.exactly_one()?;
                none().map(|()| Instruction::User(text))?
            }
            "VOLUME" => {
                self.some()?;
                none()?;
                Instruction::Volume(self.paths()?)
            }
            "WORKDIR" => {
                let text = self.exactly_one()?;
                none().map(|()| Instruction::Workdir(text))?
            }
            "FROM" => return Err(Error::invalid("FROM isn't allowed here")),
            other => return Err(Error::invalid(format!("unknown instruction: {other}"))),
        })
    }

    /// The variables that ARG declares, with their defaults.
    fn variables(&self) -> Result<Vec<(String, Option<String>)>> {
        self.some()?;
        let args = self.args.iter().map(|arg| match arg.split_once('=') {
            Some(("", _)) => Err(Error::invalid("ARG names can not be blank")),
            Some((name, value)) => Ok((name.to_owned(), Some(value.to_owned()))),
            None => Ok((arg.clone(), None)),
        });
        args.collect()
    }

    /// The instruction that ONBUILD triggers.
    fn trigger(&self) -> Result<String> {
        match self.args[0].as_str() {
            "ONBUILD" => Err(Error::invalid("Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed")),
            other @ ("MAINTAINER" | "FROM") => {
                Err(Error::invalid(format!("{other} isn't allowed as an ONBUILD trigger")))
            }
            _ => Ok(self.rest.to_owned()),
        }
    }

    fn shell(self) -> Result<Vec<String>> {
        self.some()?;
        match self.json {
            true => Ok(self.args),
            false => Err(Error::invalid("SHELL requires the arguments to be in JSON form")),
        }
    }

    fn paths(&self) -> Result<Vec<String>> {
        let paths: Vec<String> = self.args.iter().map(|path| path.trim().to_owned()).collect();
        match paths.iter().any(String::is_empty) {
            true => Err(Error::invalid("VOLUME specified can not be an empty string")),
            false => Ok(paths),
        }
    }

    fn some(&self) -> Result<()> {
        match self.args.is_empty() {
            true => Err(Error::invalid(format!("{} requires at least one argument", self.word))),
            false => Ok(()),
        }
    }

    fn exactly_one(&self) -> Result<String> {
        match self.args.as_slice() {
            [one] => Ok(one.clone()),
            _ => Err(Error::invalid(format!("{} requires exactly one argument", self.word))),
        }
    }

    fn command(&self) -> Command {
        Command { words: self.args.clone(), shell: !self.json }
    }

    /// The command of RUN, where its heredocs are for the shell to read, or are the script, or one is a program by itself.
    fn script(&self, escape: char) -> (Command, Option<Heredoc>) {
        let docs = &self.line.heredocs;
        if docs.is_empty() || self.json {
            return (self.command(), None);
        }
        let mut program = None;
        let script = match docs.as_slice() {
            [one] if split_words(self.rest, escape).len() == 1 => match one.content.starts_with("#!") {
                true => {
                    program = Some(one.clone());
                    format!("{PIPES}/{}", one.name)
                }
                false => one.content.clone(),
            },
            docs => {
                let mut script = format!("{}\n", self.rest);
                for doc in docs {
                    script.push_str(&format!("{}{}\n", doc.content, doc.name));
                }
                script
            }
        };
        (Command { words: vec![script], shell: true }, program)
    }

    fn pairs(&self) -> Result<Vec<(String, String)>> {
        self.some()?;
        let pairs: Vec<(String, String)> =
            self.args.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        match pairs.iter().any(|(name, _)| name.is_empty()) {
            true => Err(Error::invalid(format!("{} names can not be blank", self.word))),
            false => Ok(pairs),
        }
    }

    fn copy(mut self) -> Result<Instruction> {
        let is_add = self.word == "ADD";
        let known: &[&str] = match is_add {
            true => &["chown", "chmod", "checksum", "exclude", "keep-git-dir", "link"],
            false => &["chown", "from", "chmod", "exclude", "link", "parents"],
        };
        if self.args.len() < 2 {
            return Err(Error::invalid(format!(
                "{} requires at least two arguments, but only one was provided. Destination could not be determined",
                self.word
            )));
        }
        let mut flags = Flags::read(&self.flags, known)?;
        let mut documents = Vec::new();
        if !self.json {
            for doc in &self.line.heredocs {
                // The word that names it is its source.
                let at = self.args.iter().position(|word| {
                    word.strip_prefix("<<").is_some_and(|word| {
                        word.strip_prefix('-').unwrap_or(word).trim_matches(['"', '\'']) == doc.name
                    })
                });
                if let Some(at) = at {
                    self.args.remove(at);
                    documents.push(doc.clone());
                }
            }
        }
        let destination = self.args.pop().unwrap_or_default();
        let copy = Copy {
            sources: self.args,
            destination,
            from: flags.take("from"),
            chown: flags.take("chown"),
            chmod: flags.take("chmod"),
            checksum: flags.take("checksum"),
            excluded: flags.take_all("exclude"),
            keep_git_dir: flags.says("keep-git-dir")?,
            parents: flags.is_set("parents")?,
            link: flags.is_set("link")?,
            documents,
        };
        Ok(if is_add { Instruction::Add(copy) } else { Instruction::Copy(copy) })
    }

    fn healthcheck(&self) -> Result<Instruction> {
        self.some()?;
        let mut check = Healthcheck::default();
        let (kind, command) = (self.args[0].to_ascii_uppercase(), &self.args[1..]);
        if kind == "NONE" {
            if !command.is_empty() {
                return Err(Error::invalid("HEALTHCHECK NONE takes no arguments"));
            }
            check.test = vec![kind];
            return Ok(Instruction::Healthcheck(check));
        }
        let mut flags =
            Flags::read(&self.flags, &["interval", "timeout", "start-period", "start-interval", "retries"])?;
        if kind != "CMD" {
            return Err(Error::invalid(format!("Unknown type {} in HEALTHCHECK (try CMD)", quoted(&kind))));
        }
        if command.is_empty() {
            return Err(Error::invalid("Missing command after HEALTHCHECK CMD"));
        }
        check.test.push(if self.json { kind } else { "CMD-SHELL".into() });
        check.test.extend_from_slice(command);
        check.interval = interval(&mut flags, "interval")?;
        check.timeout = interval(&mut flags, "timeout")?;
        check.start_period = interval(&mut flags, "start-period")?;
        check.start_interval = interval(&mut flags, "start-interval")?;
        let retries = flags.take("retries");
        if !retries.is_empty() {
            check.retries = retries
                .parse::<i32>()
                .map_err(|_| Error::invalid(format!("strconv.ParseInt: parsing {}: invalid syntax", quoted(&retries))))?
                .into();
            if check.retries < 1 {
                return Err(Error::invalid(format!("--retries must be at least 1 (not {})", check.retries)));
            }
        }
        Ok(Instruction::Healthcheck(check))
    }
}

fn interval(flags: &mut Flags, name: &str) -> Result<i64> {
    let text = flags.take(name);
    if text.is_empty() {
        return Ok(0);
    }
    let time = duration(&text)?;
    match time < 1_000_000 {
        true => Err(Error::invalid(format!("Interval {} cannot be less than 1ms", quoted(name)))),
        false => Ok(time),
    }
}

/// The flags of an instruction.
struct Flags(Vec<(String, String)>);

impl Flags {
    /// The flags that need no value.
    const SWITCHES: [&str; 2] = ["link", "parents"];
    /// The flags that may come several times.
    const REPEATED: [&str; 2] = ["exclude", "mount"];

    /// Errors: one that the instruction does not know, that comes twice, or that has no value.
    pub(crate) fn read(words: &[String], known: &[&str]) -> Result<Flags> {
        let mut flags = Vec::<(String, String)>::new();
        for word in words {
            let flag = word.trim_start_matches('-');
            let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            if !known.contains(&name) {
                return Err(Error::invalid(format!("Unknown flag: {name}")));
            }
            if !Flags::REPEATED.contains(&name) && flags.iter().any(|(have, _)| have == name) {
                return Err(Error::invalid(format!("Duplicate flag specified: {name}")));
            }
            let value = value.or_else(|| Flags::SWITCHES.contains(&name).then_some("true"));
            let value = value.ok_or_else(|| Error::invalid(format!("Missing a value on flag: {name}")))?;
            flags.push((name.into(), value.into()));
        }
        Ok(Flags(flags))
    }

    /// The flags of RUN. The inner error is of a flag that another builder knows: the build fails once it reaches that RUN.
    fn read_run(words: &[String]) -> Result<std::result::Result<(RunNetwork, Vec<String>), String>> {
        let mut flags = Flags::read(words, &["mount", "network", "security"])?;
        let mounts = flags.take_all("mount");
        // Where there are variables, the mount is read once their values are known.
        mounts.iter().filter(|mount| !mount.contains('$')).try_for_each(|mount| RunMount::read(mount, 0).map(drop))?;
        match flags.take("security").as_str() {
            "" | "sandbox" => {}
            "insecure" => {
                return Ok(Err("RUN --security=insecure is not supported: no step gets the host's rights".into()));
            }
            other => return Err(Error::invalid(format!("RUN --security={other}: neither sandbox nor insecure"))),
        }
        let network = match flags.take("network").as_str() {
            "" | "default" => RunNetwork::Default,
            "none" => RunNetwork::None,
            "host" => RunNetwork::Host,
            other => return Err(Error::invalid(format!("RUN --network={other}: none of default, none, host"))),
        };
        Ok(Ok((network, mounts)))
    }

    /// All values of a flag.
    fn take_all(&mut self, name: &str) -> Vec<String> {
        let is_it = |flag: &mut (String, String)| flag.0 == name;
        self.0.extract_if(.., is_it).map(|(_, value)| value).collect()
    }

    /// Whether a flag is set. Errors: its value is neither true nor false.
    fn is_set(&mut self, name: &str) -> Result<bool> {
        Ok(self.says(name)?.unwrap_or(false))
    }

    /// The word of a flag as a truth value, if the flag is there.
    fn says(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name).as_str() {
            "" => Ok(None),
            "false" => Ok(Some(false)),
            "true" => Ok(Some(true)),
            other => Err(Error::invalid(format!("expecting boolean value for flag {name}, not: {other}"))),
        }
    }

    /// A flag's value; empty where it is not there.
    pub(crate) fn take(&mut self, name: &str) -> String {
        let at = self.0.iter().position(|(have, _)| have == name);
        at.map(|at| self.0.swap_remove(at).1).unwrap_or_default()
    }
}

/// The words that begin with `--`, and what follows them.
fn take_flags(text: &str, escape: char) -> (Vec<String>, &str) {
    let (mut flags, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_start();
        if !rest.starts_with("--") {
            return (flags, rest);
        }
        let (word, length) = flag_word(rest, escape);
        rest = &rest[length..];
        if word == "--" {
            return (flags, rest);
        }
        flags.push(word);
    }
}

/// A word with its quotes taken away, and how long it stands in the text.
fn flag_word(text: &str, escape: char) -> (String, usize) {
    let (mut word, mut quote) = (String::new(), None);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match quote {
            None if c.is_whitespace() => return (word, at),
            None if c == '\'' || c == '"' => quote = Some(c),
            Some(open) if open == c => quote = None,
            _ if c == escape => word.extend(chars.next().map(|(_, c)| c)),
            _ => word.push(c),
        }
    }
    (word, text.len())
}

/// A JSON array of strings; `None`: `text` is not a JSON array. Errors: an array of other things.
fn array(text: &str) -> Result<Option<Vec<String>>> {
    let text = text.trim_start();
    if !text.starts_with('[') {
        return Ok(None);
    }
    // Text behind the array is passed over, as docker's parser does.
    let first = serde_json::Deserializer::from_str(text).into_iter::<Vec<serde_json::Value>>().next();
    let Some(Ok(values)) = first else { return Ok(None) };
    let words = values.into_iter().map(|value| match value {
        serde_json::Value::String(word) => Ok(word),
        _ => Err(Error::invalid(ARRAY)),
    });
    words.collect::<Result<_>>().map(Some)
}

/// `key=value ...`, or `key the whole rest`: keys and values in turn.
fn pairs(word: &str, rest: &str, escape: char) -> Result<Vec<String>> {
    let words = split_words(rest, escape);
    let Some(first) = words.first() else { return Ok(Vec::new()) };
    if !first.contains('=') {
        let (key, value) =
            rest.split_once(is_blank).ok_or_else(|| Error::invalid(format!("{word} must have two arguments")))?;
        return Ok(vec![key.to_owned(), value.trim_start_matches(is_blank).to_owned()]);
    }
    let mut all = Vec::new();
    for word in &words {
        let (key, value) = word.split_once('=').ok_or_else(|| {
            let shown = quoted(word);
            Error::invalid(format!("Syntax error - can't find = in {shown}. Must be of the form: name=value"))
        })?;
        all.extend([key.to_owned(), value.to_owned()]);
    }
    Ok(all)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\u{b}' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(text: &str) -> (Vec<Step>, Vec<Stage>) {
        parse_stages(&Source::read(text.as_bytes()).unwrap()).unwrap()
    }

    fn refused(text: &str) -> String {
        let parsed = Source::read(format!("FROM x\n{text}").as_bytes()).and_then(|source| parse_stages(&source));
        parsed.expect_err(text).message().to_owned()
    }

    #[test]
    fn stages_and_what_stands_before_them() {
        let (before, stages) = stages(
            "ARG v=1\nfrom busybox:$v AS Base\nRUN a\nFROM --platform=linux/amd64 Base\nCMD [\"b\", \"c\"] tail",
        );
        assert_eq!((before.len(), stages.len()), (1, 2));
        assert_eq!((stages[0].base.as_str(), stages[0].name.as_str()), ("busybox:$v", "base"));
        assert_eq!(
            (stages[1].platform.as_str(), stages[1].code.as_str()),
            ("linux/amd64", "FROM --platform=linux/amd64 Base")
        );
        assert!(
            matches!(&stages[0].steps[0].instruction, Instruction::Run(run) if run.command.shell && run.command.words == ["a"])
        );
        assert!(matches!(&stages[1].steps[0].instruction, Instruction::Cmd(c) if !c.shell && c.words == ["b", "c"]));
    }

    #[test]
    fn forms() {
        let one = |text: &str| parse_one(text).unwrap().instruction;
        assert!(matches!(one("RUN [\"a\", 'b']"), Instruction::Run(run) if run.command.shell));
        assert!(matches!(one("ENV a  the  rest "), Instruction::Env(p) if p == [("a".into(), "the  rest".into())]));
        assert!(matches!(one("ENV a=1 b='x y'"), Instruction::Env(p) if p[1].1 == "'x y'"));
        let Instruction::Copy(copy) = one("COPY --chown=1:2 --from=\"b\" a \"c\" /d/") else { panic!() };
        assert_eq!((copy.chown.as_str(), copy.from.as_str(), copy.destination.as_str()), ("1:2", "b", "/d/"));
        assert_eq!(copy.sources, ["a", "\"c\""]);
        assert!(matches!(one("onbuild  run  echo a"), Instruction::OnBuild(text) if text == "run  echo a"));
        let Instruction::Healthcheck(check) = one("HEALTHCHECK --interval=1m30s --retries=2 CMD [\"a\"]") else {
            panic!()
        };
        assert_eq!((check.interval, check.retries, check.test), (90_000_000_000, 2, vec!["CMD".into(), "a".into()]));
        assert!(matches!(one("EXPOSE 90 80/udp"), Instruction::Expose(p) if p == ["80/udp", "90"]));
        assert!(matches!(one("ARG a b=2"), Instruction::Arg(a) if a.len() == 2));
    }

    #[test]
    fn heredocs_are_scripts_and_sources() {
        let (_, all) = stages("FROM x\nRUN <<EOF\na\nb\nEOF\nRUN cat <<A > /x\nc\nA\nCOPY <<F y /d/\ntext\nF");
        let command = |at: usize| match &all[0].steps[at].instruction {
            Instruction::Run(run) => run.command.words[0].clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!((command(0), command(1)), ("a\nb\n".into(), "cat <<A > /x\nc\nA\n".into()));
        let (_, programs) = stages("FROM x\nRUN <<-'E.py'\n\t#!/bin/x -e\n\t$a\nE.py\nRUN cat <<E\n#!/bin/x\nE");
        let run = |at: usize| match &programs[0].steps[at].instruction {
            Instruction::Run(run) => run.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(run(0).command.words, ["/dev/pipes/E.py"]);
        assert_eq!(run(0).program.expect("a program").content, "#!/bin/x -e\n$a\n");
        assert_eq!((run(1).program, run(1).command.words), (None, vec!["cat <<E\n#!/bin/x\nE\n".to_owned()]));
        let Instruction::Copy(copy) = &all[0].steps[2].instruction else { panic!() };
        assert_eq!((copy.sources.as_slice(), copy.documents[0].content.as_str()), (&["y".to_owned()][..], "text\n"));
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, want) in [
            ("FOO x", "dockerfile parse error line 2: unknown instruction: FOO"),
            ("\nCMD\nWORKDIR", "dockerfile parse error line 4: WORKDIR requires exactly one argument"),
            ("COPY --x=1 a b", "dockerfile parse error line 2: Unknown flag: x"),
            ("COPY --from a b", "dockerfile parse error line 2: Missing a value on flag: from"),
            ("COPY --from=a --from=b c d", "dockerfile parse error line 2: Duplicate flag specified: from"),
            ("ENV a", "failed to parse Dockerfile: ENV must have two arguments"),
            (
                "LABEL a=1 b",
                "failed to parse Dockerfile: Syntax error - can't find = in \"b\". Must be of the form: name=value",
            ),
            (
                "CMD [\"a\", 1]",
                "failed to parse Dockerfile: when using JSON array syntax, arrays must be comprised of strings only",
            ),
            ("ONBUILD FROM x", "dockerfile parse error line 2: FROM isn't allowed as an ONBUILD trigger"),
            ("FROM a b", "dockerfile parse error line 2: FROM requires either one or three arguments"),
            ("HEALTHCHECK FOO", "dockerfile parse error line 2: Unknown type \"FOO\" in HEALTHCHECK (try CMD)"),
            (
                "HEALTHCHECK --interval=1us CMD x",
                "dockerfile parse error line 2: Interval \"interval\" cannot be less than 1ms",
            ),
        ] {
            assert_eq!(refused(text), want);
        }
    }
}
