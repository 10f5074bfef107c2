//! `check`: what the host lacks. `explain`: how a container is launched.

use crate::args::{Command, Flag, Parsed, parse};
use crate::create::{BODY, body};
use crate::{Entry, Failure, Globals, Outcome, emit};
use coracle::model::{CreateBody, HostReport, LaunchPlan, Need, NeedState, RemoveContainer};
use coracle::{Engine, Options, host_report};
use std::fmt::Write;

pub const ENTRIES: &[Entry] = &[
    Entry::new("check", "[FLAGS]", "What this host lacks, what is lost for it, and the cures", CHECK, check),
    Entry {
        command: Command {
            name: "explain",
            usage: "CONTAINER [--format json] | [FLAGS] --image IMAGE [COMMAND] [ARG...]",
            about: "A container's launch, one line a step, and where it failed",
            flags: EXPLAIN,
            stops_at_first: true,
        },
        run: explain,
    },
];

const CHECK: &[Flag] = &[
    Flag::switch(&["all", "a"], "also what is met, one line each"),
    Flag::value(&["format"], "json", "the report as JSON"),
];
const EXPLAIN: &[Flag] = &[
    Flag::value(&["image"], "IMAGE", "a container of this image, which is made for the look and removed again"),
    FORMAT,
    Flag::value(&["name"], "NAME", "taken as in run, and not used: the container that failed may have it"),
    Flag::switch(&["detach", "d"], "taken as in run: the launch is the same"),
    Flag::group(BODY),
];
const FORMAT: Flag = Flag::value(&["format"], "json", "the plan as JSON");
/// The flags that may also stand after a container.
const AFTER_NAME: Command = Command { name: "explain", usage: "", about: "", flags: &[FORMAT], stops_at_first: false };

/// Whether the answer is to be JSON. Errors: another format.
fn as_json(parsed: &Parsed) -> Result<bool, Failure> {
    match parsed.last("format") {
        None => Ok(false),
        Some("json") => Ok(true),
        Some(other) => Err(Failure::Usage(format!("--format {other}: json is the only format here"))),
    }
}

fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::Here(e.to_string()))?;
    emit(&format!("{text}\n"))
}

/// Answers 1 if something is missing without which nothing works.
fn check(globals: &Globals, parsed: &Parsed) -> Outcome {
    let mut options = Options::new(&globals.root);
    options.run_dir = globals.run_dir.clone();
    let report = host_report(&options);
    match as_json(parsed)? {
        true => json(&report)?,
        false => emit(&description(&report, parsed.has("all")))?,
    }
    Ok(u8::from(!report.ready))
}

/// The report for people: a line for each area whose needs are met, and three for each need that is not.
fn description(report: &HostReport, all: bool) -> String {
    let mut text = format!("coracle {} on Linux {}\n", report.version, report.kernel);
    let mut areas: Vec<&str> = report.needs.iter().map(|need| need.area.as_str()).collect();
    areas.dedup();
    for area in areas {
        let needs: Vec<&Need> = report.needs.iter().filter(|need| need.area == area).collect();
        let met: Vec<&&Need> = needs.iter().filter(|need| need.state == NeedState::Met).collect();
        match all {
            true => met.iter().for_each(|need| line(&mut text, "ok", area, &need.name, &need.found)),
            false if met.is_empty() => {}
            false => line(&mut text, "ok", area, &format!("{} of {}", met.len(), needs.len()), "met"),
        }
        for need in needs.iter().filter(|need| need.state != NeedState::Met) {
            let state = if need.state == NeedState::Missing { "MISSING" } else { "reduced" };
            line(&mut text, state, area, &need.name, &need.found);
            let _ = writeln!(text, "{:9}lost: {}\n{:9}cure: {}", "", need.loss, "", need.cure);
        }
    }
    let reduced = report.needs.iter().any(|need| need.state == NeedState::Reduced);
    let verdict = match (report.ready, reduced) {
        (false, _) => "not ready: something is missing without which no container runs",
        (true, true) => "ready, with losses",
        (true, false) => "ready",
    };
    text + verdict + "\n"
}

fn line(text: &mut String, state: &str, area: &str, name: &str, found: &str) {
    let _ = writeln!(text, "{state:<8} {area}: {name}: {found}");
}

fn explain(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (plan, is_json) = match parsed.last("image") {
        Some(image) => {
            let (body, is_json) = (body(parsed, image, &parsed.rest)?, as_json(parsed)?);
            (of_image(&globals.engine()?, &body)?, is_json)
        }
        None => {
            let (container, is_json) = named(parsed)?;
            (globals.engine()?.container_explain(&container)?, is_json)
        }
    };
    match is_json {
        true => json(&plan)?,
        false => emit(&steps(&plan))?,
    }
    Ok(0)
}

/// The container that a command line without `--image` names, and whether the plan is to be JSON.
fn named(parsed: &Parsed) -> Result<(String, bool), Failure> {
    if let Some(flag) = parsed.keys().find(|key| *key != FORMAT.names[0]) {
        return Err(Failure::Usage(format!("--{flag} describes a new container: --image is needed, too")));
    }
    let after = parse(&AFTER_NAME, parsed.rest.clone()).map_err(Failure::Usage)?;
    let is_json = as_json(parsed)? || as_json(&after)?;
    match after.rest.as_slice() {
        [container] if !after.help => Ok((container.clone(), is_json)),
        _ => Err(Failure::Usage("one container is needed, or --image".into())),
    }
}

/// The plan of a container that is never started.
fn of_image(engine: &Engine, body: &CreateBody) -> Result<LaunchPlan, Failure> {
    let id = engine.container_create(None, body)?.id;
    let plan = engine.container_explain(&id);
    let how = RemoveContainer { force: true, volumes: true, ..RemoveContainer::default() };
    engine.container_remove(&id, how, None)?;
    Ok(plan?)
}

fn steps(plan: &LaunchPlan) -> String {
    let mut text = String::new();
    for step in &plan.steps {
        let failed = if step.failed.is_empty() { String::new() } else { format!("   <-- {}", step.failed) };
        let _ = writeln!(text, "{:>3}  {}{failed}", step.number, step.text);
    }
    if !plan.error.is_empty() {
        let _ = writeln!(text, "\nthe last start failed: {}", plan.error);
    }
    if !plan.failed_step.is_empty() {
        let number = if plan.errno == 0 { String::new() } else { format!(": {} ({})", plan.errno_name, plan.errno) };
        let _ = writeln!(text, "at the step: {}{number}", plan.failed_step);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_the_losses_and_the_cures() {
        let need = |name: &str, state| Need {
            area: "root".into(),
            name: name.into(),
            state,
            found: "found".into(),
            ..Need::default()
        };
        let missing = Need { loss: "all".into(), cure: "mount it".into(), ..need("file system", NeedState::Missing) };
        let needs = vec![need("writable", NeedState::Met), missing];
        let report = HostReport { version: "1".into(), kernel: "6".into(), ready: false, needs };
        let text = description(&report, false);
        let want =
            "coracle 1 on Linux 6\nok       root: 1 of 2: met\nMISSING  root: file system: found\n         lost: all\n";
        assert!(text.starts_with(want), "{text}");
        assert!(text.contains("cure: mount it\nnot ready"), "{text}");
        assert!(description(&report, true).contains("ok       root: writable: found\n"));
    }
}
