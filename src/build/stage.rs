//! A stage: its state, and what each instruction does to it.

use super::args::Args;
use super::{Build, Temporary, check_architecture, short};
use crate::buildfile::{
    Budget, Command, Copy, Expander, Instruction, Stage, Step, is_too_much, of_env, parse_one, quoted, shell,
    shown_list,
};
use crate::container::names::new_id;
use crate::container::spec::clean;
use crate::error::{Error, ErrorKind, Result};
use crate::image::{self, Digest};
use crate::log::Channel;
use crate::model::{ContainerConfig, CreateBody, Healthcheck, HostConfig, LogConfig, Resources};
use std::collections::BTreeMap;

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

    /// The configuration that stands for a step which runs nothing: two words say what it does.
    fn nop(&self, comment: &str) -> ContainerConfig {
        self.with_cmd([shell(&self.config), vec!["#(nop) ".into(), comment.into()]].concat())
    }

    /// The command of an instruction that runs nothing, in one word, as some instructions have it.
    pub(super) fn nop_in_one(&self, comment: &str) -> ContainerConfig {
        self.with_cmd([shell(&self.config), vec![format!("#(nop) {comment}")]].concat())
    }

    fn with_cmd(&self, cmd: Vec<String>) -> ContainerConfig {
        let mut config = ContainerConfig { cmd: Some(cmd), ..self.config.clone() };
        if !config.working_dir.is_empty() {
            config.working_dir = clean(&config.working_dir);
        }
        config
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
        args.check()?;
        Ok(())
    }

    /// FROM.
    pub(super) fn begin(&mut self, state: &mut State<'_>, stage: &Stage) -> Result<()> {
        self.budget = Budget::new();
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
            self.step(state, &Step { line: 0, ..parse_one(trigger)? })?;
        }
        Ok(())
    }

    /// An image by its name, from its registry where it is not here or a newer one is asked for.
    pub(super) fn base_image(&mut self, name: &str) -> Result<(String, ContainerConfig)> {
        if !self.request.pull {
            match self.shop.images.catalog.config(name) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                found => return found.map(|(id, view)| (id, view.config)),
            }
        }
        self.pull(name)?;
        self.shop.images.catalog.config(name).map(|(id, view)| (id, view.config))
    }

    /// Does one step; then containers go that the request does not want to keep.
    pub(super) fn step(&mut self, state: &mut State<'_>, step: &Step) -> Result<()> {
        state.config.image = state.image.clone().unwrap_or_default();
        self.budget = Budget::new();
        let done = self.instruction(state, &step.instruction).map_err(|error| named(error, step.line));
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
            let gone = if container.is_real {
                self.shop.containers.build_steps.remove_build_step(&container.id)
            } else {
                Ok(())
            };
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
            Instruction::Copy(copy) => self.files(state, &seen, copy, false),
            Instruction::Maintainer(text) => {
                state.author.clone_from(text);
                self.nop(state, &format!("MAINTAINER {text}"))
            }
            Instruction::NotHere(why) => Err(Error::invalid(why.clone())),
            Instruction::Run(command) => self.run(state, command, &seen.args),
            Instruction::Workdir(_) => {
                let comment = self.change(state, &seen, instruction)?;
                self.workdir(state, &comment)
            }
            other => {
                let comment = self.change(state, &seen, other)?;
                self.nop(state, &comment)
            }
        }
    }

    /// An instruction that changes the configuration; answers how the history tells of it.
    fn change(&mut self, state: &mut State<'_>, seen: &Seen, instruction: &Instruction) -> Result<String> {
        if let (Instruction::Healthcheck(_), Some(before)) = (instruction, &state.config.healthcheck)
            && before.test.first().is_some_and(|word| word != "NONE")
        {
            self.out.line(format!("Note: overriding previous HEALTHCHECK: {}\n", shown_list(&before.test)))?;
        }
        let look_up = look_up(&seen.env, &seen.args);
        let expander = Expander { escape: self.escape, look_up: &look_up, budget: &self.budget };
        let told = instruction.apply(&mut state.config, &mut state.cmd_set, &expander)?;
        told.ok_or_else(|| Error::internal("an instruction that does more than change the configuration"))
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
        state.args.check()?;
        self.nop(state, &comment)
    }

    fn workdir(&mut self, state: &mut State<'_>, comment: &str) -> Result<()> {
        let config = state.nop_in_one(comment);
        if self.probe(state, &config)? {
            return Ok(());
        }
        let layer = self.directory(state.image.as_deref(), &state.config.working_dir)?;
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
        self.volumes_fit(state)?;
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
        let (step, warnings) = self.shop.containers.build_steps.build_step(&body, &self.building)?;
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
        let words = command.words(&state.config);
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
        if words.is_empty() {
            // As dockerd has it: the image's own command runs.
            config.cmd = None;
        } else {
            config.entrypoint = Some(vec![String::new()]);
        }
        config.healthcheck = Some(Healthcheck { test: vec!["NONE".into()], ..Healthcheck::default() });
        let env = config.env.get_or_insert_default();
        env.extend(args.iter().map(|(name, value)| format!("{name}={value}")));
        #[cfg(feature = "attacks")]
        if !crate::walls::Wall::BuildEnvironment.stands() {
            env.extend(std::env::vars().map(|(name, value)| format!("{name}={value}")));
        }
        let id = self.container(&config)?;
        let step = self.shop.containers.build_steps.known_build_step(&id);
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
        let look_up = look_up(env, args);
        Expander { escape: self.escape, look_up: &look_up, budget: &self.budget }.word(text)
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

/// Says at which line of the build file something became too large: the other errors of instructions tell of their
/// text, as dockerd's do.
pub(super) fn named(error: Error, line: usize) -> Error {
    match line > 0 && is_too_much(&error) {
        true => error.context(format_args!("dockerfile line {line}")),
        false => error,
    }
}

/// The value of a variable: of the environment first, then of the arguments.
fn look_up<'e>(env: &'e [String], args: &'e BTreeMap<String, String>) -> impl Fn(&str) -> Option<String> + use<'e> {
    move |name| of_env(env, name).or_else(|| args.get(name).cloned())
}
