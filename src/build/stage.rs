//! The instructions of a stage.

use super::args::Args;
use super::base::base_image;
use super::copy::Sources;
use super::run_mounts::Mounting;
use super::state::State;
use super::variables::{Seen, look_up};
use super::{Build, check_architecture, short};
use crate::buildfile::{
    Budget, Copy, Expander, Instruction, Run, RunNetwork, Stage, Step, parse_one, quoted, shown_list,
};
use crate::error::{Cause, Error, ErrorKind, Result};
use crate::log::Channel;
use crate::model::{ContainerConfig, Healthcheck};
use std::collections::BTreeMap;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Build<'_> {
    /// ARG before the first FROM.
    pub(super) fn meta(&mut self, step: &Step, args: &mut Args<'_>) -> Result<()> {
        let Instruction::Arg(list) = &step.instruction else { return Ok(()) };
        for (name, default) in list {
            let known = args.beside(&[]);
            let default = default.as_ref().map(|text| self.variables.expand(text, &[], &known)).transpose()?;
            args.add_meta(name, default);
        }
        args.check()?;
        Ok(())
    }

    /// FROM.
    pub(super) fn begin(&mut self, state: &mut State<'_>, stage: &Stage) -> Result<()> {
        self.variables.budget = Budget::new();
        let meta = state.args.all_meta();
        let base = self.variables.expand(&stage.base, &[], &meta)?;
        if base.is_empty() {
            return Err(Error::invalid(format!("base name ({}) should not be blank", stage.base)));
        }
        let platform = self.variables.expand(&stage.platform, &[], &meta)?;
        if !matches!(platform.split('/').next(), Some("" | "linux")) {
            return Err(Error::invalid(format!("operating system is not supported: {}", quoted(&platform))));
        }
        check_architecture(&platform)?;
        let earlier = self.finished.iter().find(|stage| stage.name == base.to_lowercase());
        if let Some(earlier) = earlier {
            if !earlier.is_built {
                let text = format!("FROM {base}: the build skips the stage of that name");
                return Err(Error::unsupported(text));
            }
            (state.image, state.config) = (earlier.image.clone(), earlier.config.clone());
        } else if base != "scratch" {
            let (id, config) = base_image(&mut self.job, &base)?;
            (state.image, state.config) = (Some(id), config);
        }
        state.base.clone_from(&state.image);
        let has_path = state.config.env.iter().flatten().any(|entry| entry.split('=').next() == Some("PATH"));
        if !has_path {
            state.config.env.get_or_insert_default().push(format!("PATH={PATH}"));
        }
        (state.config.open_stdin, state.config.stdin_once) = (false, false);
        let triggers = state.config.on_build.take().unwrap_or_default();
        if triggers.is_empty() {
            return Ok(());
        }
        self.job.out.line(format!("# Executing {} build trigger", triggers.len()))?;
        if triggers.len() > 1 {
            self.job.out.line("s")?;
        }
        self.job.out.line("\n")?;
        for trigger in &triggers {
            self.step(state, &Step { line: 0, ..parse_one(trigger)? })?;
        }
        Ok(())
    }

    /// Does one step; then containers go that the request does not want to keep.
    pub(super) fn step(&mut self, state: &mut State<'_>, step: &Step) -> Result<()> {
        state.config.image = state.image.clone().unwrap_or_default();
        self.variables.budget = Budget::new();
        let done = self.instruction(state, &step.instruction).map_err(|error| named(error, step.line));
        let cancelled = done.as_ref().is_err_and(|error| {
            matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Timeout | ErrorKind::Callback)
        });
        if self.job.request.forcerm || self.job.request.rm && done.is_ok() || cancelled {
            return done.and(self.containers.clear(&mut self.job, !cancelled));
        }
        done
    }

    fn instruction(&mut self, state: &mut State<'_>, instruction: &Instruction) -> Result<()> {
        let env = state.config.env.clone().unwrap_or_default();
        self.variables.budget.looks_in(&env);
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
            Instruction::Run(run) => self.run(state, run, &seen),
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

    /// An instruction that changes the configuration; answers how the history describes it.
    fn change(&mut self, state: &mut State<'_>, seen: &Seen, instruction: &Instruction) -> Result<String> {
        if let (Instruction::Healthcheck(_), Some(before)) = (instruction, &state.config.healthcheck)
            && before.test.first().is_some_and(|word| word != "NONE")
        {
            self.job.out.line(format!("Note: overriding previous HEALTHCHECK: {}\n", shown_list(&before.test)))?;
        }
        let look_up = look_up(&seen.env, &seen.args);
        let expander = Expander { escape: self.variables.escape, look_up: &look_up, budget: &self.variables.budget };
        let applied = instruction.apply(&mut state.config, &mut state.cmd_set, &expander)?;
        applied.ok_or_else(|| Error::internal("an instruction that does more than change the configuration"))
    }

    fn arg(&mut self, state: &mut State<'_>, seen: &Seen, list: &[(String, Option<String>)]) -> Result<()> {
        let mut comment = String::from("ARG");
        let mut new = Vec::new();
        for (name, default) in list {
            let name = self.variables.put_in(seen, name)?;
            let default = default.as_ref().map(|text| self.variables.put_in(seen, text)).transpose()?;
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
        if self.job.probe(state, &config)? {
            return Ok(());
        }
        let layer = self.job.directory(state.image.as_deref(), &state.config.working_dir)?;
        let id = self.containers.mentioned(&mut self.job, &config)?;
        self.job.commit(state, ContainerConfig { hostname: short(&id).to_owned(), ..config }, &id, layer)
    }

    /// COPY and ADD.
    fn files(&mut self, state: &mut State<'_>, seen: &Seen, copy: &Copy, is_add: bool) -> Result<()> {
        let mut copy = copy.clone();
        copy.sources = self.variables.all_put_in(seen, &copy.sources)?;
        copy.destination = self.variables.put_in(seen, &copy.destination)?;
        copy.chown = self.variables.put_in(seen, &copy.chown)?;
        copy.checksum = self.variables.put_in(seen, &copy.checksum)?;
        copy.excluded = self.variables.all_put_in(seen, &copy.excluded)?;
        for doc in copy.documents.iter_mut().filter(|doc| doc.expand) {
            // Line by line would be the same: quotes mean nothing in a document.
            doc.content = self.variables.expand_document(&doc.content, &seen.env, &seen.args)?;
        }
        sources(self).copy(state, &copy, is_add)
    }

    /// A step that only changes the configuration.
    fn nop(&mut self, state: &mut State<'_>, comment: &str) -> Result<()> {
        let config = state.nop(comment);
        if self.job.probe(state, &config)? {
            return Ok(());
        }
        self.job.volumes_fit(state)?;
        let id = self.containers.mentioned(&mut self.job, &config)?;
        self.job.commit(state, ContainerConfig { hostname: short(&id).to_owned(), ..config }, &id, None)
    }

    /// The network mode of a step, if it is another than the build's. Errors: a build file asks for the host's network, and
    /// the build does not.
    fn network_of(&self, asked: RunNetwork) -> Result<Option<&'static str>> {
        match (asked, self.job.request.networkmode.as_str()) {
            (RunNetwork::Default, _) | (RunNetwork::None, "none") | (RunNetwork::Host, "host") => Ok(None),
            (RunNetwork::None, _) => Ok(Some("none")),
            (RunNetwork::Host, _) => Err(Error::new(
                ErrorKind::Forbidden,
                "RUN --network=host: the build must have the network mode host, too",
            )),
        }
    }

    fn run(&mut self, state: &mut State<'_>, run: &Run, seen: &Seen) -> Result<()> {
        let words = run.command.argv(&state.config);
        let network = self.network_of(run.network)?;
        if run.mounts.iter().any(|mount| takes_variable_from(mount)) {
            let text = "RUN --mount: 'from' doesn't support variable expansion, define alias stage instead";
            return Err(Error::invalid(text));
        }
        let mounts = self.variables.all_put_in(seen, &run.mounts)?;
        let mut mounts = mounting(self).find(&state.config.working_dir, &mounts)?;
        mounts.add_program(run.program.as_ref())?;
        let probe = saved(state, &words, &seen.args, [network_word(network), mounts.words()].concat());
        if self.job.probe(state, &probe)? {
            return Ok(());
        }
        let config = process(state, &words, &seen.args)?;
        let made = mounting(self).make(state.image.as_deref(), &mounts)?;
        let id = self.containers.made(&mut self.job, &config, network)?;
        let step = self.job.shop.containers.build_steps.known_build_step(&id);
        let out = &mut self.job.out;
        let ran = step.run(
            made.extras,
            &mut |channel, bytes| {
                let text = String::from_utf8_lossy(bytes);
                if channel == Channel::Stderr { out.error(&text) } else { out.line(text) }
            },
            self.job.op,
        );
        let code = match ran {
            Ok(code) => code,
            Err(error) => {
                // The step may still run: its caches are held until its container is gone.
                self.containers.keep(made.held);
                return Err(error);
            }
        };
        made.held.free();
        if code != 0 {
            let text = format!("The command '{}' returned a non-zero code: {code}", words.join(" "));
            return Err(Error::internal(text).with_exit_code(code));
        }
        step.remove_stubs(&made.stubs, self.job.op)?;
        let stays = !self.job.request.rm && !self.job.request.forcerm;
        let layer = step.layer(&self.job.building, stays, self.job.op)?;
        self.job.commit(state, probe, &id, layer)
    }
}

/// The configuration of the container of a RUN.
fn process(state: &State<'_>, words: &[String], args: &BTreeMap<String, String>) -> Result<ContainerConfig> {
    let Some(image) = state.image.clone() else {
        return Err(Error::invalid("RUN: there is nothing in `scratch` that could run"));
    };
    let mut config = ContainerConfig { cmd: Some(words.to_vec()), image, ..state.config.clone() };
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
    Ok(config)
}

/// Whether `from` of a mount has a variable: stages are chosen before variables have values.
fn takes_variable_from(mount: &str) -> bool {
    mount.split(',').any(|field| field.to_ascii_lowercase().starts_with("from=") && field.contains('$'))
}

fn sources<'s, 'a>(build: &'s mut Build<'a>) -> Sources<'s, 'a> {
    Sources { job: &mut build.job, context: build.context.as_ref(), finished: &build.finished }
}

fn mounting<'s, 'a>(build: &'s mut Build<'a>) -> Mounting<'s, 'a> {
    Mounting { sources: sources(build) }
}

/// Another network may give another layer.
fn network_word(network: Option<&str>) -> Vec<String> {
    network.map(|mode| format!("--network={mode}")).into_iter().collect()
}

/// The configuration that stands for a RUN in the cache: its flags, its arguments, its command.
fn saved(state: &State<'_>, words: &[String], args: &BTreeMap<String, String>, flags: Vec<String>) -> ContainerConfig {
    let given: Vec<String> = args
        .iter()
        .filter(|(name, _)| state.args.is_in_history(name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let command = match args.is_empty() {
        true => words.to_vec(),
        false => [vec![format!("|{}", given.len())], given, words.to_vec()].concat(),
    };
    let mut config = ContainerConfig { cmd: Some([flags, command].concat()), ..state.config.clone() };
    if !words.is_empty() {
        config.entrypoint = None;
    }
    config
}

/// Says at which line of the build file something became too large or too much: the other errors of instructions show their
/// text, as dockerd's do.
pub(super) fn named(error: Error, line: usize) -> Error {
    match line > 0 && matches!(error.cause(), Some(Cause::ValuesTooLarge | Cause::TooManyMounts)) {
        true => error.context(format_args!("dockerfile line {line}")),
        false => error,
    }
}
