//! Building images: the classic builder, step by step, each step an image of its own on the one before.
//!
//! RUN steps are the engine's own containers; COPY and ADD write into an overlay that only this build sees. A step's
//! writable directory becomes its layer by a rename, never by a copy. All images of a build become visible together at
//! its end, behind one flush; those of a build that fails too, so that the next one takes its steps from there.

mod agent;
mod args;
mod base;
mod caches;
mod context;
mod copy;
mod files;
mod job;
mod mode;
mod needs;
mod numbered;
mod output;
pub(crate) mod prune;
#[cfg(feature = "registry")]
mod remote;
#[cfg(feature = "registry")]
mod repository;
mod run_mounts;
mod selection;
mod side_by_side;
mod sources;
mod squash;
mod stage;
mod state;
mod step_containers;
mod variables;

use crate::buildfile::{Budget, Instruction, Source, Stage, Step, parse_stages};
use crate::container::Containers;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Journal;
use crate::image::{Images, Reference, SharedBuilding, host_architecture};
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree;
use crate::model::{BuildImage, Progress, architecture_name};
use crate::op::Op;
use crate::options::Options;
use args::Args;
use job::Job;
use output::Output;
use state::{Finished, State};
use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use step_containers::StepContainers;
use variables::Variables;

/// The value of `stages` with which stages are built side by side.
const PARALLEL: &str = "parallel";

/// Takes progress messages; an error ends the build.
pub(crate) type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> Result<()>;

/// The files that the instructions of a build copy from.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::Context;
/// use coracle::model::BuildImage;
///
/// let build = BuildImage { t: vec!["site:1".into()], ..Default::default() };
/// let mut report = |progress: coracle::model::Progress| {
///     print!("{}", progress.stream);
///     Ok(())
/// };
/// let id = engine.image_build(&build, Context::Directory("site".as_ref()), &mut report, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
pub enum Context<'a> {
    /// Nothing, or what `remote` says.
    None,
    /// A tar, plain or compressed (gzip, bzip2, xz, zstd).
    Tar(&'a mut dyn Read),
    /// A directory of this machine, without what its `.dockerignore` names. All in it is root's in the image.
    Directory(&'a Path),
    /// An open directory.
    Descriptor(BorrowedFd<'a>),
}

impl Context<'_> {
    /// Whether these first bytes are text, so that the input is a build file and not a tar, plain or compressed. They
    /// may end within a character.
    pub fn is_build_file(head: &[u8]) -> bool {
        !head.contains(&0) && std::str::from_utf8(head).err().is_none_or(|error| error.error_len().is_none())
    }
}

/// The parts of the engine that a build uses.
#[derive(Clone, Copy)]
pub(crate) struct Workshop<'a> {
    pub(crate) images: &'a Images,
    pub(crate) containers: &'a Containers,
    pub(crate) journal: &'a Journal,
    #[cfg_attr(not(feature = "registry"), allow(dead_code))]
    pub(crate) options: &'a Options,
}

/// A build at work.
struct Build<'a> {
    job: Job<'a>,
    context: Option<Arc<OwnedFd>>,
    variables: Variables,
    containers: StepContainers,
    /// The stages that are done.
    finished: Vec<Finished>,
    stop: &'a Op,
}

/// The present step among those of a build file.
#[derive(Default)]
struct Count {
    number: usize,
    total: usize,
}

/// Builds an image; answers its id.
///
/// Errors before the first message are about the request. A RUN that fails is an error with its exit code.
pub(crate) fn build<'a>(
    shop: Workshop<'a>,
    request: &'a BuildImage,
    context: Context<'_>,
    on_progress: OnProgress<'a>,
    op: Option<&'a Op>,
) -> Result<String> {
    let names = check(request)?;
    // Ends the stages of a build that are at work when another one fails.
    let stop = Op::new()?;
    let building = Arc::new(SharedBuilding::new(shop.images.builds.begin(&request.cachefrom)?));
    let out = Output::new(Box::new(on_progress), request.q);
    let mut build = Build {
        job: Job { shop, request, building, out, op },
        context: None,
        variables: Variables { escape: '\\', budget: Budget::new() },
        containers: StepContainers::default(),
        finished: Vec::new(),
        stop: &stop,
    };
    let source = build.source(context)?;
    build.variables.escape = source.escape;
    let (before, mut stages) = parse_stages(&source)?;
    plan(request, &mut stages)?;
    let worked = match request.stages.as_str() {
        PARALLEL => side_by_side::work_side_by_side(&mut build, &before, &stages),
        _ => build.work(&source, &before, &stages),
    };
    let done = worked.and_then(|image| {
        let image = squash::squash(&mut build, image)?;
        build.succeed(&image, &names)?;
        Ok(image)
    });
    match done {
        Ok(image) => build.report_end(image, &names),
        Err(error) => Err(build.fail(error)),
    }
}

/// Checks a request by itself; answers the image's names.
fn check(request: &BuildImage) -> Result<Vec<Reference>> {
    if request.file.is_some() && !matches!(request.remote.as_str(), "" | "-") {
        return Err(Error::invalid("file and remote: both say what is built, and only one can"));
    }
    if !matches!(request.stages.as_str(), "" | PARALLEL) {
        return Err(Error::invalid(format!("stages: {:?} is neither empty nor {PARALLEL:?}", request.stages)));
    }
    let os = request.platform.split('/').next().unwrap_or_default();
    if !matches!(os, "" | "linux") {
        return Err(Error::invalid(format!("operating system is not supported: {os:?}")));
    }
    check_architecture(&request.platform)?;
    let mut names: Vec<Reference> = Vec::new();
    for text in request.t.iter().filter(|text| !text.is_empty()) {
        let name = Reference::parse(text).map_err(|e| e.with_kind(ErrorKind::Internal))?;
        if name.digest().is_some() {
            return Err(Error::internal("build tag cannot contain a digest"));
        }
        let name = name.or_latest();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Steps run on this machine: a platform (`os[/architecture[/variant]]`) of another architecture is refused.
fn check_architecture(platform: &str) -> Result<()> {
    let host = host_architecture();
    let asked = platform.split('/').nth(1).unwrap_or_default().to_ascii_lowercase();
    let known = architecture_name(&asked);
    match known.is_empty() || known == host {
        true => Ok(()),
        false => Err(Error::unsupported(format!("platform {platform}: this machine builds for linux/{host} only"))),
    }
}

impl Build<'_> {
    /// Brings the context in, and reads the build file.
    fn source(&mut self, context: Context<'_>) -> Result<Source> {
        let remote = Some(self.job.request.remote.as_str()).filter(|remote| !matches!(*remote, "" | "-"));
        let asked = self.job.request.dockerfile.as_str();
        let own = self.job.request.file.as_ref().map(|text| ("Dockerfile".to_owned(), text.clone().into_bytes()));
        let (name, bytes) = match (remote, context) {
            (Some(url), _) => self.fetched(url)?,
            (None, Context::Tar(input)) => {
                let root = context::stage(&self.job.building, input, self.job.op)?;
                let (file, name) = match own {
                    // The build file came with the request; a file of that name in the context stays there.
                    Some(own) => (own, None),
                    None => {
                        let file = context::build_file(&root, asked)?;
                        let name = file.0.clone();
                        (file, Some(name))
                    }
                };
                context::take_away(&root, name.as_deref())?;
                self.context = Some(root);
                file
            }
            (None, Context::Directory(path)) => self.directory_context(tree::open_dir(path)?, own)?,
            (None, Context::Descriptor(fd)) => {
                let flags = libc::O_RDONLY | libc::O_DIRECTORY;
                let wrong = |error: Error| error.context("the context").with_kind(ErrorKind::Invalid);
                self.directory_context(openat2(fd, ".", flags, 0, BENEATH_NO_LINKS).map_err(wrong)?, own)?
            }
            (None, Context::None) => own.ok_or_else(|| {
                Error::invalid("the build has no context: neither a tar nor a directory, a file or `remote`")
            })?,
        };
        if bytes.is_empty() {
            return Err(Error::invalid(format!("the Dockerfile ({name}) cannot be empty")));
        }
        Source::read(&bytes).map_err(|error| error.context(format_args!("failed to parse {name}")))
    }

    fn directory_context(&mut self, from: OwnedFd, own: Option<(String, Vec<u8>)>) -> Result<(String, Vec<u8>)> {
        let file = own.map_or_else(|| context::build_file(&from, &self.job.request.dockerfile), Ok)?;
        self.context = Some(context::stage_directory(&self.job.building, &from, self.job.op)?);
        Ok(file)
    }

    #[cfg(not(feature = "registry"))]
    fn fetched(&mut self, _: &str) -> Result<(String, Vec<u8>)> {
        Err(Error::unsupported("remote: this build of the library has no HTTP client (feature \"registry\")"))
    }

    #[cfg(feature = "registry")]
    fn fetched(&mut self, url: &str) -> Result<(String, Vec<u8>)> {
        let (root, name, bytes) = remote::context(&mut self.job, url)?;
        self.context = root;
        Ok((name, bytes))
    }

    /// Works through all stages; answers the last one's image.
    fn work(&mut self, source: &Source, before: &[Step], stages: &[Stage]) -> Result<String> {
        let mut args = Args::new(&self.job.request.buildargs);
        let total = before.len() + stages.len() + stages.iter().map(|stage| stage.steps.len()).sum::<usize>();
        let mut number = 0;
        if !source.warnings.is_empty() {
            self.job.out.error(&format!("{}\n", source.warnings.join("\n")))?;
        }
        for step in before {
            number += 1;
            self.job.out.step(number, total, &step.code, false)?;
            self.variables.budget = Budget::new();
            self.meta(step, &mut args).map_err(|error| stage::named(error, step.line))?;
        }
        let mut count = Count { number, total };
        for stage in stages {
            if !stage.name.is_empty() && self.finished.iter().any(|other| other.name == stage.name) {
                return Err(Error::invalid(format!("{} stage name already used", stage.name)));
            }
            let state = self.stage(stage, State::new(args.for_stage()), &mut count)?;
            let (finished, used) = state.finished(&stage.name);
            args.merge(&used);
            self.finished.push(finished);
        }
        self.job.out.warn_of_unused(&args.unused())?;
        let image = self.finished.last().and_then(|stage| stage.image.clone());
        image.ok_or_else(|| Error::internal("No image was generated. Is your Dockerfile empty?"))
    }

    /// Works through one stage; answers the state that it ends with.
    fn stage<'s>(&mut self, stage: &Stage, mut state: State<'s>, count: &mut Count) -> Result<State<'s>> {
        count.number += 1;
        self.job.out.step(count.number, count.total, &stage.code, true)?;
        self.begin(&mut state, stage)?;
        self.job.out.image(state.image.as_deref())?;
        for step in &stage.steps {
            if let Some(Err(error)) = self.job.op.map(Op::check) {
                self.job.out.line("Build cancelled\n")?;
                return Err(error);
            }
            count.number += 1;
            self.job.out.step(count.number, count.total, &step.code, step.instruction.counts())?;
            self.step(&mut state, step)?;
            self.job.out.image(state.image.as_deref())?;
        }
        if let Some(id) = &state.image {
            self.job.out.aux(id)?;
        }
        Ok(state)
    }

    /// Everything becomes visible. The containers that stay are other ones' before the build's directory goes: an open
    /// that finds them without it would remove them.
    fn succeed(&mut self, image: &str, names: &[Reference]) -> Result<()> {
        let events = self.job.building.finish(Some(image), names)?;
        for event in &events {
            self.job.shop.journal.append(event)?;
        }
        self.job.shop.containers.build_steps.keep_build_steps(&self.containers.ids())
    }

    fn report_end(mut self, image: String, names: &[Reference]) -> Result<String> {
        let names: Vec<String> = names.iter().map(Reference::to_string).collect();
        self.job.out.built(&image, &names)?;
        self.job.out.end(&image)?;
        Ok(image)
    }

    /// Ends a build that failed: images that were built stay, for the next build and for the containers that stay.
    fn fail(mut self, error: Error) -> Error {
        let kept = self.job.building.finish(None, &[]);
        let kept = kept.and_then(|_| self.job.shop.containers.build_steps.keep_build_steps(&self.containers.ids()));
        if kept.is_err() {
            // Where the disk is full, for one: containers of images that are not there cannot stay.
            for id in self.containers.ids() {
                let _ = self.job.shop.containers.build_steps.remove_build_step(&id);
            }
        }
        // The build's own error is the answer, also if the client does not listen any more.
        let _ = self.job.out.give_up();
        error
    }
}

/// Applies the request to the stages: the target stage, labels.
fn plan(request: &BuildImage, stages: &mut Vec<Stage>) -> Result<()> {
    let target = &request.target;
    if !target.is_empty() {
        let by_name = stages.iter().position(|stage| stage.name.eq_ignore_ascii_case(target));
        let by_number = target.parse().ok().filter(|number| *number < stages.len());
        let index = by_name
            .or(by_number)
            .ok_or_else(|| Error::invalid(format!("failed to reach build target {target} in Dockerfile")))?;
        stages.truncate(index + 1);
    }
    let last = stages.last_mut().ok_or_else(|| {
        // A file of ARGs only.
        Error::internal("No image was generated. Is your Dockerfile empty?")
    })?;
    for (key, value) in &request.labels {
        let pairs = vec![(key.clone(), value.clone())];
        let instruction = Instruction::Label { pairs, literal: true };
        last.steps.push(Step { code: format!("LABEL {key}={value}"), line: 0, instruction });
    }
    Ok(())
}

/// An id as people are shown it.
fn short(id: &str) -> &str {
    let hex = id.strip_prefix("sha256:").unwrap_or(id);
    hex.get(..12).unwrap_or(hex)
}
