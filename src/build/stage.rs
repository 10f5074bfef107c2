//! A stage: its state, and what each instruction does to it.

use super::args::Args;
use super::{Build, Temporary, check_architecture, short};
use crate::buildfile::{
    Command, Copy, Expander, Instruction, Stage, Step, parse_one, quoted, quoted_list, shown_duration, shown_list,
};
use crate::container::names::new_id;
use crate::container::spec::{clean, parse_signal, signal_exists};
use crate::error::{Error, ErrorKind, Result};
use crate::image::{self, Digest};
use crate::log::Channel;
use crate::model::{ContainerConfig, CreateBody, Empty, Healthcheck, HostConfig, LogConfig, Resources};
use std::collections::BTreeMap;

const SHELL: [&str; 2] = ["/bin/sh", "-c"];
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a stage has come to.
pub(super) struct State<'a> {
    /// The image so far; absent: nothing yet on `scratch`.
    pub(super) image: Option<String>,
    pub(super) config: ContainerConfig,
    pub(super) author: String,
    /// CMD stood in this stage: ENTRYPOINT leaves it.
    pub(super) cmd_set: bool,
    pub(super) args: Args<'a>,
    /// A step was made anew: so are those after it.
    pub(super) anew: bool,
}

/// The variables that a step sees.
struct Seen {
    env: Vec<String>,
    args: BTreeMap<String, String>,
}

/// A stage that is done.
pub(super) struct Finished {
    pub(super) name: String,
    pub(super) image: Option<String>,
    pub(super) config: ContainerConfig,
}

impl<'a> State<'a> {
    pub(super) fn new(args: Args<'a>) -> State<'a> {
        State {
            image: None,
            config: ContainerConfig::default(),
            author: String::new(),
            cmd_set: false,
            args,
            anew: false,
        }
    }

    fn shell(&self) -> Vec<String> {
        let own = self.config.shell.clone().filter(|shell| !shell.is_empty());
        own.unwrap_or_else(|| SHELL.map(str::to_owned).to_vec())
    }

    /// The words that a command line becomes: one for the shell that says nothing is the shell alone.
    fn words(&self, command: &Command) -> Vec<String> {
        match command.shell {
            true => [self.shell(), command.words.clone()].concat(),
            false => command.words.clone(),
        }
    }

    /// The configuration that stands for a step which runs nothing: two words say what it does.
    fn nop(&self, comment: &str) -> ContainerConfig {
        self.with_cmd([self.shell(), vec!["#(nop) ".into(), comment.into()]].concat())
    }

    /// The same in one word, as some instructions have it.
    pub(super) fn nop_in_one(&self, comment: &str) -> ContainerConfig {
        self.with_cmd([self.shell(), vec![format!("#(nop) {comment}")]].concat())
    }

    fn with_cmd(&self, cmd: Vec<String>) -> ContainerConfig {
        ContainerConfig { cmd: Some(cmd), ..self.config.clone() }
    }
}

impl Build<'_> {
    /// ARG before the first FROM.
    pub(super) fn meta(&mut self, step: &Step, args: &mut Args<'_>) -> Result<()> {
        let Instruction::Arg(list) = &step.instruction else { return Ok(()) };
        for (name, default) in list {
            let known = args.beside(&[]);
            let default = default.as_ref().map(|text| self.expand(text, &[], &known)).transpose()?;
            args.add_meta(name, default);
        }
        Ok(())
    }

    /// FROM.
    pub(super) fn begin(&mut self, state: &mut State<'_>, stage: &Stage) -> Result<()> {
        let meta = state.args.all_meta();
        let base = self.expand(&stage.base, &[], &meta)?;
        if base.is_empty() {
            return Err(Error::invalid(format!("base name ({}) should not be blank", stage.base)));
        }
        let platform = self.expand(&stage.platform, &[], &meta)?;
        if !matches!(platform.split('/').next(), Some("" | "linux")) {
            return Err(Error::invalid(format!("operating system is not supported: {}", quoted(&platform))));
        }
        check_architecture(&platform)?;
        let earlier = self.finished.iter().find(|stage| stage.name == base.to_lowercase());
        if let Some(earlier) = earlier {
            (state.image, state.config) = (earlier.image.clone(), earlier.config.clone());
        } else if base != "scratch" {
            let (id, config) = self.base_image(&base)?;
            (state.image, state.config) = (Some(id), config);
        }
        let has_path = state.config.env.iter().flatten().any(|entry| entry.split('=').next() == Some("PATH"));
        if !has_path {
            state.config.env.get_or_insert_default().push(format!("PATH={PATH}"));
        }
        (state.config.open_stdin, state.config.stdin_once) = (false, false);
        let triggers = state.config.on_build.take().unwrap_or_default();
        if triggers.is_empty() {
            return Ok(());
        }
        self.out.line(format!("# Executing {} build trigger", triggers.len()))?;
        if triggers.len() > 1 {
            self.out.line("s")?;
        }
        self.out.line("\n")?;
        for trigger in &triggers {
            self.step(state, &parse_one(trigger)?)?;
        }
        Ok(())
    }

    /// An image by its name, from its registry where it is not here or a newer one is asked for.
    pub(super) fn base_image(&mut self, name: &str) -> Result<(String, ContainerConfig)> {
        if !self.request.pull {
            match self.shop.images.config(name) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                found => return found.map(|(id, view)| (id, view.config)),
            }
        }
        self.pull(name)?;
        self.shop.images.config(name).map(|(id, view)| (id, view.config))
    }

    /// Does one step; then containers go that the request does not want to keep.
    pub(super) fn step(&mut self, state: &mut State<'_>, step: &Step) -> Result<()> {
        state.config.image = state.image.clone().unwrap_or_default();
        let done = self.instruction(state, &step.instruction);
        let cancelled = done.as_ref().is_err_and(|error| {
            matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Timeout | ErrorKind::Callback)
        });
        if self.request.forcerm || self.request.rm && done.is_ok() || cancelled {
            return done.and(self.clear(!cancelled));
        }
        done
    }

    /// Removes the containers of the steps so far. One that cannot go stays the build's; the others go all the same.
    fn clear(&mut self, tell: bool) -> Result<()> {
        let mut result = Ok(());
        let mut stay = Vec::new();
        for container in std::mem::take(&mut self.containers) {
            let gone = if container.is_real { self.shop.containers.remove_build_step(&container.id) } else { Ok(()) };
            let told = match (&gone, tell) {
                (Ok(()), true) => self.out.line(format!("Removing intermediate container {}\n", short(&container.id))),
                _ => Ok(()),
            };
            if gone.is_err() {
                stay.push(container);
            }
            result = result.and(gone).and(told);
        }
        self.containers = stay;
        result
    }

    fn instruction(&mut self, state: &mut State<'_>, instruction: &Instruction) -> Result<()> {
        let env = state.config.env.clone().unwrap_or_default();
        let seen = Seen { args: state.args.beside(&env), env };
        match instruction {
            Instruction::Add(copy) => self.files(state, &seen, copy, true),
            Instruction::Arg(list) => self.arg(state, &seen, list),
            Instruction::Cmd(command) => self.cmd(state, command),
            Instruction::Copy(copy) => self.files(state, &seen, copy, false),
            Instruction::Entrypoint(command) => self.entrypoint(state, command),
            Instruction::Env(pairs) => self.env(state, &seen, pairs),
            Instruction::Expose(words) => self.expose(state, &seen, words),
            Instruction::Healthcheck(check) => self.healthcheck(state, check),
            Instruction::Label { pairs, literal } => self.label(state, &seen, pairs, *literal),
            Instruction::Maintainer(text) => {
                state.author.clone_from(text);
                self.nop(state, &format!("MAINTAINER {text}"))
            }
            Instruction::NotHere(why) => Err(Error::invalid(why.clone())),
            Instruction::OnBuild(text) => {
                state.config.on_build.get_or_insert_default().push(text.clone());
                self.nop(state, &format!("ONBUILD {text}"))
            }
            Instruction::Run(command) => self.run(state, command, &seen.args),
            Instruction::Shell(words) => {
                state.config.shell = Some(words.clone());
                self.nop(state, &format!("SHELL {}", shown_list(words)))
            }
            Instruction::StopSignal(text) => self.stop_signal(state, &seen, text),
            Instruction::User(text) => {
                state.config.user = self.put_in(&seen, text)?;
                let comment = format!("USER {}", state.config.user);
                self.nop(state, &comment)
            }
            Instruction::Volume(paths) => self.volume(state, &seen, paths),
            Instruction::Workdir(path) => self.workdir(state, &seen, path),
        }
    }

    fn arg(&mut self, state: &mut State<'_>, seen: &Seen, list: &[(String, Option<String>)]) -> Result<()> {
        let mut comment = String::from("ARG");
        let mut new = Vec::new();
        for (name, default) in list {
            let name = self.put_in(seen, name)?;
            let default = default.as_ref().map(|text| self.put_in(seen, text)).transpose()?;
            comment.push_str(&format!(" {name}"));
            if let Some(default) = &default {
                comment.push_str(&format!("={default}"));
            }
            new.push((name, default));
        }
        for (name, default) in new {
            state.args.add(&name, default);
        }
        self.nop(state, &comment)
    }

    fn env(&mut self, state: &mut State<'_>, seen: &Seen, pairs: &[(String, String)]) -> Result<()> {
        let mut comment = String::from("ENV");
        let list = state.config.env.get_or_insert_default();
        for (name, value) in pairs {
            let entry = format!("{}={}", self.put_in(seen, name)?, self.put_in(seen, value)?);
            comment.push_str(&format!(" {entry}"));
            let name = entry.split('=').next();
            match list.iter_mut().find(|have| have.split('=').next() == name) {
                Some(have) => *have = entry,
                None => list.push(entry),
            }
        }
        self.nop(state, &comment)
    }

    fn label(&mut self, state: &mut State<'_>, seen: &Seen, pairs: &[(String, String)], literal: bool) -> Result<()> {
        let mut comment = String::from("LABEL");
        for (key, value) in pairs {
            let (key, value) = match literal {
                true => (key.clone(), value.clone()),
                false => (self.put_in(seen, key)?, self.put_in(seen, value)?),
            };
            comment.push_str(&format!(" {key}={value}"));
            state.config.labels.insert(key, value);
        }
        self.nop(state, &comment)
    }

    fn cmd(&mut self, state: &mut State<'_>, command: &Command) -> Result<()> {
        let words = state.words(command);
        let comment = format!("CMD {}", quoted_list(&words));
        state.config.cmd = Some(words);
        self.nop(state, &comment)?;
        state.cmd_set |= !command.words.is_empty();
        Ok(())
    }

    fn entrypoint(&mut self, state: &mut State<'_>, command: &Command) -> Result<()> {
        let words = if command.words.is_empty() { Vec::new() } else { state.words(command) };
        let comment = format!("ENTRYPOINT {}", quoted_list(&words));
        state.config.entrypoint = if words.is_empty() { None } else { Some(words) };
        if !state.cmd_set {
            state.config.cmd = None;
        }
        self.nop(state, &comment)
    }

    fn expose(&mut self, state: &mut State<'_>, seen: &Seen, words: &[String]) -> Result<()> {
        let expander = self.expander(&seen.env, &seen.args);
        let expander = Expander { escape: self.escape, look_up: &expander };
        let mut ports = Vec::new();
        for word in words {
            ports.extend(expander.words(word)?);
        }
        for port in image::exposed(&ports)? {
            state.config.exposed_ports.insert(port, Empty {});
        }
        self.nop(state, &format!("EXPOSE {}", ports.join(" ")))
    }

    fn healthcheck(&mut self, state: &mut State<'_>, check: &Healthcheck) -> Result<()> {
        let before = state.config.healthcheck.take().unwrap_or_default();
        if before.test.first().is_some_and(|word| word != "NONE") {
            self.out.line(format!("Note: overriding previous HEALTHCHECK: {}\n", shown_list(&before.test)))?;
        }
        // Times that are not given are those of before, as in every container.
        let first = |own, inherited| if own == 0 { inherited } else { own };
        state.config.healthcheck = Some(Healthcheck {
            test: check.test.clone(),
            interval: first(check.interval, before.interval),
            timeout: first(check.timeout, before.timeout),
            retries: first(check.retries, before.retries),
            start_period: first(check.start_period, before.start_period),
        });
        self.nop(state, &format!("HEALTHCHECK {}", shown_check(check)))
    }

    fn stop_signal(&mut self, state: &mut State<'_>, seen: &Seen, text: &str) -> Result<()> {
        let signal = self.put_in(seen, text)?;
        if !parse_signal(&signal).is_ok_and(signal_exists) {
            return Err(Error::invalid(format!("Invalid signal: {signal}")));
        }
        state.config.stop_signal.clone_from(&signal);
        self.nop(state, &format!("STOPSIGNAL {signal}"))
    }

    fn volume(&mut self, state: &mut State<'_>, seen: &Seen, paths: &[String]) -> Result<()> {
        let paths = self.all_put_in(seen, paths)?;
        for path in &paths {
            if path.is_empty() {
                return Err(Error::invalid("VOLUME specified can not be an empty string"));
            }
            state.config.volumes.get_or_insert_default().insert(path.clone(), Empty {});
        }
        self.nop(state, &format!("VOLUME {}", shown_list(&paths)))
    }

    fn workdir(&mut self, state: &mut State<'_>, seen: &Seen, path: &str) -> Result<()> {
        let path = self.put_in(seen, path)?;
        if path.is_empty() {
            return Err(Error::invalid("cannot normalise nothing"));
        }
        let path = match path.starts_with('/') {
            true => clean(&path),
            false => clean(&format!("{}/{path}", state.config.working_dir)),
        };
        state.config.working_dir.clone_from(&path);
        let config = state.nop_in_one(&format!("WORKDIR {path}"));
        if self.probe(state, &config)? {
            return Ok(());
        }
        let layer = self.directory(state.image.as_deref(), &path)?;
        let id = self.spoken_of(&config)?;
        self.commit(state, ContainerConfig { hostname: short(&id).to_owned(), ..config }, &id, layer)
    }

    /// COPY and ADD.
    fn files(&mut self, state: &mut State<'_>, seen: &Seen, copy: &Copy, is_add: bool) -> Result<()> {
        let mut copy = copy.clone();
        copy.sources = self.all_put_in(seen, &copy.sources)?;
        copy.destination = self.put_in(seen, &copy.destination)?;
        copy.chown = self.put_in(seen, &copy.chown)?;
        for doc in copy.documents.iter_mut().filter(|doc| doc.expand) {
            // Line by line would be the same: quotes mean nothing in a document.
            doc.content = self.expand_document(&doc.content, &seen.env, &seen.args)?;
        }
        self.copy(state, &copy, is_add)
    }

    fn put_in(&self, seen: &Seen, text: &str) -> Result<String> {
        self.expand(text, &seen.env, &seen.args)
    }

    fn all_put_in(&self, seen: &Seen, texts: &[String]) -> Result<Vec<String>> {
        texts.iter().map(|text| self.put_in(seen, text)).collect()
    }

    /// A step that only changes the configuration.
    fn nop(&mut self, state: &mut State<'_>, comment: &str) -> Result<()> {
        let config = state.nop(comment);
        if self.probe(state, &config)? {
            return Ok(());
        }
        let id = self.spoken_of(&config)?;
        self.commit(state, ContainerConfig { hostname: short(&id).to_owned(), ..config }, &id, None)
    }

    /// Whether the step is here already; then it is done.
    pub(super) fn probe(&mut self, state: &mut State<'_>, config: &ContainerConfig) -> Result<bool> {
        let known = match state.anew || self.request.nocache {
            true => None,
            false => self.building.cached(state.image.as_deref(), config, &state.config)?,
        };
        match known {
            Some(id) => {
                self.out.line(" ---> Using cache\n")?;
                state.image = Some(id);
                Ok(true)
            }
            None => {
                state.anew = true;
                // From here on the build stands on it.
                state.image.as_deref().map_or(Ok(()), |image| self.building.hold(image))?;
                Ok(false)
            }
        }
    }

    /// The container of a step that runs nothing. It is made only where it is to stay: nobody could see it else.
    fn spoken_of(&mut self, config: &ContainerConfig) -> Result<String> {
        let stays = !self.request.rm && !self.request.forcerm;
        let id = if stays { self.container(config)? } else { new_id()? };
        if !stays {
            self.containers.push(Temporary { id: id.clone(), is_real: false });
            self.out.line(format!(" ---> Running in {}\n", short(&id)))?;
        }
        Ok(id)
    }

    /// Makes a container, and tells of it.
    fn container(&mut self, config: &ContainerConfig) -> Result<String> {
        let body = CreateBody { config: config.clone(), host_config: self.host_config(), ..CreateBody::default() };
        let (step, warnings) = self.shop.containers.build_step(&body, &self.building)?;
        let id = step.id.clone();
        self.containers.push(Temporary { id: id.clone(), is_real: true });
        for warning in warnings {
            self.out.line(format!(" ---> [Warning] {warning}\n"))?;
        }
        self.out.line(format!(" ---> Running in {}\n", short(&id)))?;
        Ok(id)
    }

    /// The step becomes an image.
    pub(super) fn commit(
        &mut self,
        state: &mut State<'_>,
        container_config: ContainerConfig,
        container: &str,
        layer: Option<Digest>,
    ) -> Result<()> {
        let step = image::Step {
            parent: state.image.as_deref(),
            config: &state.config,
            container_config: &container_config,
            container,
            author: &state.author,
        };
        state.image = Some(self.building.image(&step, layer)?);
        Ok(())
    }

    fn run(&mut self, state: &mut State<'_>, command: &Command, args: &BTreeMap<String, String>) -> Result<()> {
        let words = state.words(command);
        let told: Vec<String> = args
            .iter()
            .filter(|(name, _)| state.args.is_told(name))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let saved = match args.is_empty() {
            true => words.clone(),
            false => [vec![format!("|{}", told.len())], told, words.clone()].concat(),
        };
        let mut probe = ContainerConfig { cmd: Some(saved), ..state.config.clone() };
        if !words.is_empty() {
            probe.entrypoint = None;
        }
        if self.probe(state, &probe)? {
            return Ok(());
        }
        let Some(image) = state.image.clone() else {
            return Err(Error::invalid("RUN: there is nothing in `scratch` that could run"));
        };
        let mut config = ContainerConfig { cmd: Some(words.clone()), image, ..state.config.clone() };
        config.entrypoint = Some(vec![String::new()]);
        config.healthcheck = Some(Healthcheck { test: vec!["NONE".into()], ..Healthcheck::default() });
        let env = config.env.get_or_insert_default();
        env.extend(args.iter().map(|(name, value)| format!("{name}={value}")));
        let id = self.container(&config)?;
        let step = self.shop.containers.known_build_step(&id);
        let out = &mut self.out;
        let code = step.run(
            &mut |channel, bytes| {
                let text = String::from_utf8_lossy(bytes);
                if channel == Channel::Stderr { out.error(&text) } else { out.line(text) }
            },
            self.op,
        )?;
        if code != 0 {
            let text = format!("The command '{}' returned a non-zero code: {code}", words.join(" "));
            return Err(Error::internal(text).with_exit_code(code));
        }
        let stays = !self.request.rm && !self.request.forcerm;
        let layer = step.layer(&mut self.building, stays, self.op)?;
        self.commit(state, probe, &id, layer)
    }

    fn host_config(&self) -> HostConfig {
        let request = self.request;
        HostConfig {
            log_config: LogConfig { kind: "none".into(), ..LogConfig::default() },
            network_mode: request.networkmode.clone(),
            shm_size: Some(request.shmsize),
            extra_hosts: Some(request.extrahosts.clone()).filter(|hosts| !hosts.is_empty()),
            security_opt: Some(request.securityopt.clone()).filter(|options| !options.is_empty()),
            resources: Resources {
                cpu_shares: request.cpushares,
                memory: request.memory,
                memory_swap: request.memswap,
                cgroup_parent: request.cgroupparent.clone(),
                cpu_period: request.cpuperiod,
                cpu_quota: request.cpuquota,
                cpuset_cpus: request.cpusetcpus.clone(),
                cpuset_mems: request.cpusetmems.clone(),
                ulimits: Some(request.ulimits.clone()).filter(|limits| !limits.is_empty()),
                ..Resources::default()
            },
            ..HostConfig::default()
        }
    }

    /// Puts variables in: of the environment first, then arguments.
    fn expand(&self, text: &str, env: &[String], args: &BTreeMap<String, String>) -> Result<String> {
        let look_up = self.expander(env, args);
        Expander { escape: self.escape, look_up: &look_up }.word(text)
    }

    fn expander<'e>(
        &self,
        env: &'e [String],
        args: &'e BTreeMap<String, String>,
    ) -> impl Fn(&str) -> Option<String> + use<'e> {
        move |name| {
            let of_env = env.iter().find_map(|entry| {
                let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
                (key == name).then(|| value.to_owned())
            });
            of_env.or_else(|| args.get(name).cloned())
        }
    }

    /// Puts variables into a document, in which quotes are only quotes.
    fn expand_document(&self, text: &str, env: &[String], args: &BTreeMap<String, String>) -> Result<String> {
        let (mut escaped, mut chars) = (String::new(), text.chars().peekable());
        while let Some(c) = chars.next() {
            match c {
                '\'' | '"' => escaped.push(self.escape),
                // Before anything but a dollar it stands for itself.
                c if c == self.escape && chars.peek() != Some(&'$') => escaped.push(c),
                _ => {}
            }
            escaped.push(c);
        }
        self.expand(&escaped, env, args)
    }
}

/// A health check as the history shows it.
fn shown_check(check: &Healthcheck) -> String {
    let time = |ns: i64| quoted(&shown_duration(ns));
    let count = u32::try_from(check.retries).unwrap_or(0);
    let count = match char::from_u32(count) {
        Some(c @ (' '..='&' | '('..='[' | ']'..='~')) => format!("'{c}'"),
        Some('\'') => "'\\''".into(),
        Some('\\') => "'\\\\'".into(),
        Some('\n') => "'\\n'".into(),
        Some('\t') => "'\\t'".into(),
        Some('\r') => "'\\r'".into(),
        Some('\u{7}') => "'\\a'".into(),
        Some('\u{8}') => "'\\b'".into(),
        Some('\u{b}') => "'\\v'".into(),
        Some('\u{c}') => "'\\f'".into(),
        _ if count < 0x80 => format!("'\\x{count:02x}'"),
        _ => format!("'\\u{count:04x}'"),
    };
    let (interval, timeout, start) = (time(check.interval), time(check.timeout), time(check.start_period));
    format!("&{{{} {interval} {timeout} {start} {count}}}", quoted_list(&check.test))
}
