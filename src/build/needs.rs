//! Which stages a stage stands on, or copies from.

use crate::buildfile::{Instruction, Stage};
use std::collections::{BTreeMap, BTreeSet};

/// The stages of a build file: those that the last one needs, and which come before which.
pub(super) struct Needs {
    /// Of each stage: the stages that must be done before. Absent: nothing needs it.
    pub(super) before: Vec<Option<BTreeSet<usize>>>,
}

impl Needs {
    /// `bases`: the images of `FROM`, with variables put in.
    pub(super) fn of(stages: &[Stage], bases: &[String]) -> Needs {
        let names: BTreeMap<&str, usize> = (stages.iter().enumerate().rev())
            .filter(|(_, stage)| !stage.name.is_empty())
            .map(|(index, stage)| (stage.name.as_str(), index))
            .collect();
        // Words of triggers are read when the stage is a base: they count for those that stand on it.
        let triggers: Vec<BTreeSet<String>> = stages.iter().map(|stage| words(stage, true)).collect();
        let mut direct = Vec::new();
        for (index, stage) in stages.iter().enumerate() {
            let base = names.get(bases[index].to_lowercase().as_str()).copied().filter(|base| *base < index);
            let mut named = words(stage, false);
            named.extend(base.iter().flat_map(|base| triggers[*base].clone()));
            let number = |word: &String| {
                let by_name = names.get(word.to_lowercase().as_str()).copied();
                by_name.or_else(|| word.parse().ok()).filter(|number| *number < index)
            };
            let mut all: BTreeSet<usize> = named.iter().filter_map(number).collect();
            all.extend(base);
            direct.push(all);
        }
        let mut before = vec![None; stages.len()];
        let mut open: Vec<usize> = stages.len().checked_sub(1).into_iter().collect();
        while let Some(index) = open.pop() {
            if before[index].is_none() {
                open.extend(&direct[index]);
                before[index] = Some(direct[index].clone());
            }
        }
        Needs { before }
    }

    /// The stages that are done when a stage begins, whatever the machine's pace is.
    pub(super) fn all_before(&self, index: usize) -> BTreeSet<usize> {
        let direct = |index: usize| self.before[index].iter().flatten().copied();
        let (mut all, mut open) = (BTreeSet::new(), direct(index).collect::<Vec<_>>());
        while let Some(one) = open.pop() {
            if all.insert(one) {
                open.extend(direct(one));
            }
        }
        all
    }
}

/// The words behind `from=` in a stage: of its own steps, or of its triggers.
fn words(stage: &Stage, of_triggers: bool) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for step in &stage.steps {
        match &step.instruction {
            Instruction::Copy(copy) | Instruction::Add(copy) if !of_triggers => {
                all.insert(copy.from.clone());
            }
            Instruction::Run(run) if !of_triggers => run.mounts.iter().for_each(|mount| all.extend(after_from(mount))),
            Instruction::OnBuild(text) if of_triggers => all.extend(after_from(text)),
            _ => {}
        }
    }
    all.remove("");
    all
}

fn after_from(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let places = lower.match_indices("from=").map(|(at, found)| at + found.len());
    places.map(|at| text[at..].split([',', ' ', '\t']).next().unwrap_or_default().to_owned()).collect()
}
