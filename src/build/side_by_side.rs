//! Stages side by side: each stage that the wanted one needs has a thread, which begins when the stages before it are
//! done. The caller's thread passes on what they say, and hears whether the operation ended.

use super::args::Args;
use super::job::Job;
use super::needs::Needs;
use super::numbered::{Numbered, Numbers};
use super::output::{Output, Sink};
use super::state::{Finished, State};
use super::step_containers::StepContainers;
use super::variables::Variables;
use super::{Build, Count};
use crate::buildfile::{Budget, Stage, Step};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::thread;
use crate::model::Progress;
use crate::op::Op;
use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::Scope;
use std::time::Duration;

/// How often the operation is looked at while no stage says anything.
const LOOK: Duration = Duration::from_millis(50);

/// Messages that wait for the caller's thread: stages that say more wait, too, as do their containers.
const WAITING: usize = 64;

/// A message of a stage's thread.
enum Message<'a> {
    Said(Progress),
    /// The stage with this number is over; `None`: its thread panicked.
    Ended(usize, Option<Box<Ended<'a>>>),
}

struct Ended<'a> {
    containers: StepContainers,
    result: Result<(Finished, Args<'a>)>,
}

/// Says that a stage is over, whatever happens in its thread.
struct Bell<'a> {
    sender: SyncSender<Message<'a>>,
    index: usize,
    ended: Option<Box<Ended<'a>>>,
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        // The caller's thread listens until each stage has said this, also after a failure. Nobody listens any more only
        // if that thread is gone; then the call answers at once.
        let _ = self.sender.send(Message::Ended(self.index, self.ended.take()));
    }
}

/// The stages at work.
struct Work<'w> {
    stages: &'w [Stage],
    needs: Needs,
    /// The stages that have not begun.
    waiting: BTreeSet<usize>,
    running: usize,
    done: Vec<Option<Finished>>,
    failure: Option<Error>,
    numbers: Numbers,
}

impl Work<'_> {
    /// A stage whose turn it is.
    fn next(&self) -> Option<usize> {
        let ready = |index: &usize| self.needs.before[*index].iter().flatten().all(|one| self.done[*one].is_some());
        // Steps run as processes of their own, so that even one processor has use for two.
        let most = std::thread::available_parallelism().map_or(1, usize::from).max(2);
        if self.failure.is_some() || self.running >= most {
            return None;
        }
        self.waiting.iter().copied().find(ready)
    }

    /// The stages before one, as its steps see them: those that it needs, or that they need. A stage that happens to be done
    /// is not among them, so that triggers of an image outside of the build file find the same stages in every run.
    fn finished_before(&self, index: usize) -> Vec<Finished> {
        let needed = self.needs.all_before(index);
        let one = |(number, stage): (usize, &Stage)| {
            let done = self.done[number].clone().filter(|_| needed.contains(&number));
            done.unwrap_or_else(|| Finished::not_built(&stage.name))
        };
        self.stages[..index].iter().enumerate().map(one).collect()
    }

    /// The name of a stage in the output; empty: it is the only one.
    fn label(&self, index: usize) -> String {
        match (self.stages[index].name.as_str(), self.stages.len()) {
            ("", 1) => String::new(),
            ("", _) => format!("stage-{index}"),
            (name, _) => name.to_owned(),
        }
    }
}

/// Works through the stages that the last one needs; answers its image.
pub(super) fn work_side_by_side<'a>(build: &mut Build<'a>, before: &[Step], stages: &[Stage]) -> Result<String> {
    let mut args = Args::new(&build.job.request.buildargs);
    for step in before {
        build.variables.budget = Budget::new();
        build.meta(step, &mut args).map_err(|error| super::stage::named(error, step.line))?;
    }
    names_differ(stages)?;
    let meta = args.all_meta();
    // A base that cannot be read is an error of its stage, if something needs that.
    let mut expanded = |stage: &Stage| {
        // As when the stage begins: a stage before it takes nothing away.
        build.variables.budget = Budget::new();
        build.variables.expand(&stage.base, &[], &meta).unwrap_or_default()
    };
    let bases: Vec<String> = stages.iter().map(&mut expanded).collect();
    let needs = Needs::of(stages, &bases);
    let waiting = (0..stages.len()).filter(|index| needs.before[*index].is_some()).collect();
    let (done, numbers) = (stages.iter().map(|_| None).collect(), Numbers::default());
    build.job.out.number(&numbers);
    let mut work = Work { stages, needs, waiting, running: 0, done, failure: None, numbers };
    std::thread::scope(|scope| run_all(build, scope, &mut work, &mut args));
    if let Some(error) = work.failure {
        return Err(error);
    }
    build.job.out.warn_of_unused(&args.unused())?;
    build.finished = work.done.into_iter().flatten().collect();
    let image = build.finished.last().and_then(|stage| stage.image.clone());
    image.ok_or_else(|| Error::internal("No image was generated. Is your Dockerfile empty?"))
}

fn names_differ(stages: &[Stage]) -> Result<()> {
    let mut names = BTreeSet::new();
    match stages.iter().find(|stage| !stage.name.is_empty() && !names.insert(&stage.name)) {
        Some(stage) => Err(Error::invalid(format!("{} stage name already used", stage.name))),
        None => Ok(()),
    }
}

fn run_all<'a, 's, 'e: 's>(build: &mut Build<'a>, scope: &'s Scope<'s, 'e>, work: &mut Work<'e>, args: &mut Args<'a>)
where
    'a: 'e,
{
    let (sender, receiver) = sync_channel(WAITING);
    loop {
        while let Some(index) = work.next() {
            work.waiting.remove(&index);
            match start(build, scope, work, index, args.for_stage(), &sender) {
                Ok(()) => work.running += 1,
                Err(error) => give_up(build, work, error),
            }
        }
        if work.running == 0 {
            return;
        }
        let heard = match receiver.recv_timeout(LOOK) {
            Ok(Message::Said(progress)) => build.job.out.message(progress),
            Ok(Message::Ended(index, ended)) => {
                work.running -= 1;
                take_end(build, work, index, ended, args)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(()),
        };
        if let Err(error) = heard.and_then(|()| build.job.op.map_or(Ok(()), Op::check)) {
            give_up(build, work, error);
        }
    }
}

/// Ends the stages at work. The first error is the build's.
fn give_up(build: &Build<'_>, work: &mut Work<'_>, error: Error) {
    if work.failure.is_none() {
        work.failure = Some(error);
        build.stop.cancel();
    }
}

fn take_end(
    build: &mut Build<'_>,
    work: &mut Work<'_>,
    index: usize,
    ended: Option<Box<Ended<'_>>>,
    args: &mut Args<'_>,
) -> Result<()> {
    let Some(ended) = ended else { return Err(Error::internal("a stage of the build ended unexpectedly")) };
    build.containers.absorb(ended.containers);
    let (finished, used) = ended.result?;
    args.merge(&used);
    work.done[index] = Some(finished);
    Ok(())
}

/// Begins a stage in a thread of its own. Errors: the thread cannot be started.
fn start<'a, 's, 'e: 's>(
    build: &Build<'a>,
    scope: &'s Scope<'s, 'e>,
    work: &Work<'e>,
    index: usize,
    args: Args<'a>,
    sender: &SyncSender<Message<'a>>,
) -> Result<()>
where
    'a: 'e,
{
    let (stage, sender) = (&work.stages[index], sender.clone());
    let total = 1 + stage.steps.iter().filter(|step| step.instruction.counts()).count();
    let numbered = Numbered::new(&work.numbers, work.label(index), total);
    let (shop, request, building, stop) = (build.job.shop, build.job.request, build.job.building.clone(), build.stop);
    let (context, escape, finished) = (build.context.clone(), build.variables.escape, work.finished_before(index));
    let work = move || {
        let mut bell = Bell { sender: sender.clone(), index, ended: None };
        let gone = |_| Error::new(ErrorKind::Cancelled, "the build is over");
        let sink: Sink<'_> = Box::new(move |progress| sender.send(Message::Said(progress)).map_err(gone));
        let job = Job { shop, request, building, out: Output::numbered(sink, numbered), op: Some(stop) };
        let variables = Variables { escape, budget: Budget::new() };
        let containers = StepContainers::default();
        let mut build = Build { job, context, variables, containers, finished, stop };
        let result = build.stage(stage, State::new(args), &mut Count::default());
        if let Err(error) = &result {
            // The build's own error is the answer, also if nobody listens.
            let _ = build.job.out.failed(error);
        }
        let result = result.map(|state| state.finished(&stage.name));
        bell.ended = Some(Box::new(Ended { containers: build.containers, result }));
    };
    thread::spawn(scope, "build-stage", work).map(drop)
}
