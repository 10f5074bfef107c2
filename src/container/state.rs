//! The requests that a container accepts in each of its states: one table, with every pair written out.
//!
//! `docs/lifecycle.md` prints it (a test of this module compares the two). Each verb locks the container, which
//! completes a start that is under way and records the end of a killed monitor, and then calls [`decide`].

use super::Snapshot;
use crate::error::{Error, Result};
use crate::store::states::Status;

/// A request about a container. Requests that are accepted in every state (inspect, logs, copies, changes, export,
/// rename, stats) are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Start,
    Stop,
    Restart,
    Kill,
    Pause,
    Unpause,
    Exec,
    Attach,
    Resize,
    Top,
    Remove,
    RemoveByForce,
    Update,
    Commit,
}

/// How a request is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The request is carried out.
    Do,
    /// Success without any action.
    Nothing,
    /// No process runs: the pending restart is cancelled, which ends the container.
    EndRestart,
    /// The container is ended first.
    EndFirst,
    /// The processes are thawed for the request.
    Thaw,
    /// The processes are frozen for the duration, if the caller wants that.
    Freeze,
    /// The change is kept for the next start; there is no process to change.
    Keep,
    /// The caller's streams end at once, or wait for the next start.
    Wait,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotRunning,
    NotPaused,
    IsRestarting,
    AlreadyPaused,
    StartOfPaused,
    ExecOfPaused,
    AttachOfPaused,
    RemovalOfRunning,
    RemovalOfPaused,
    RemovalOfRestarting,
}

/// The table.
pub(super) fn may(verb: Verb, status: Status) -> std::result::Result<Way, Refusal> {
    use Refusal::*;
    use Status::*;
    match (verb, status) {
        (Verb::Start, Created | Exited) => Ok(Way::Do),
        (Verb::Start, Starting | Running | Restarting) => Ok(Way::Nothing),
        (Verb::Start, Paused) => Err(StartOfPaused),

        (Verb::Stop, Created | Exited) => Ok(Way::Nothing),
        (Verb::Stop, Starting | Running) => Ok(Way::Do),
        (Verb::Stop, Paused) => Ok(Way::Thaw),
        (Verb::Stop, Restarting) => Ok(Way::EndRestart),

        (Verb::Restart, Created | Exited) => Ok(Way::Do),
        (Verb::Restart, Starting | Running | Paused | Restarting) => Ok(Way::EndFirst),

        (Verb::Kill, Created | Exited) => Err(NotRunning),
        (Verb::Kill, Starting | Running) => Ok(Way::Do),
        (Verb::Kill, Paused) => Ok(Way::Thaw),
        (Verb::Kill, Restarting) => Ok(Way::EndRestart),

        (Verb::Pause, Created | Exited) => Err(NotRunning),
        (Verb::Pause, Starting | Running) => Ok(Way::Do),
        (Verb::Pause, Paused) => Err(AlreadyPaused),
        (Verb::Pause, Restarting) => Err(IsRestarting),

        (Verb::Unpause, Paused) => Ok(Way::Do),
        (Verb::Unpause, Created | Starting | Running | Restarting | Exited) => Err(NotPaused),

        (Verb::Exec, Created | Exited) => Err(NotRunning),
        (Verb::Exec, Starting | Running) => Ok(Way::Do),
        (Verb::Exec, Paused) => Err(ExecOfPaused),
        (Verb::Exec, Restarting) => Err(IsRestarting),

        (Verb::Attach, Created | Exited) => Ok(Way::Wait),
        (Verb::Attach, Starting | Running | Restarting) => Ok(Way::Do),
        (Verb::Attach, Paused) => Err(AttachOfPaused),

        (Verb::Resize, Created | Exited) => Err(NotRunning),
        (Verb::Resize, Starting | Running | Paused | Restarting) => Ok(Way::Do),

        (Verb::Top, Created | Exited) => Err(NotRunning),
        (Verb::Top, Starting | Running | Paused) => Ok(Way::Do),
        (Verb::Top, Restarting) => Err(IsRestarting),

        (Verb::Remove, Created | Exited) => Ok(Way::Do),
        (Verb::Remove, Starting | Running) => Err(RemovalOfRunning),
        (Verb::Remove, Paused) => Err(RemovalOfPaused),
        (Verb::Remove, Restarting) => Err(RemovalOfRestarting),

        (Verb::RemoveByForce, Created | Exited) => Ok(Way::Do),
        (Verb::RemoveByForce, Starting | Running | Paused | Restarting) => Ok(Way::EndFirst),

        (Verb::Update, Created | Exited | Restarting) => Ok(Way::Keep),
        (Verb::Update, Starting | Running | Paused) => Ok(Way::Do),

        (Verb::Commit, Running) => Ok(Way::Freeze),
        (Verb::Commit, Created | Starting | Paused | Restarting | Exited) => Ok(Way::Do),
    }
}

/// How a request is carried out in the state of this snapshot. Errors: the refusal, in dockerd's words.
pub(super) fn decide(verb: Verb, found: &Snapshot) -> Result<Way> {
    may(verb, found.now.state.status()).map_err(|refusal| refusal.error(&found.row.id, &found.row.name))
}

impl Refusal {
    /// The error about a container with this id and name.
    pub(super) fn error(self, id: &str, name: &str) -> Error {
        let removal = |state: &str, first: &str| {
            format!(
                "You cannot remove a {state} container {id}. {first} the container before attempting removal or force remove"
            )
        };
        let text = match self {
            Refusal::NotPaused => return Error::internal(format!("Container {id} is not paused")),
            Refusal::NotRunning => return super::not_running(id),
            Refusal::IsRestarting => format!("Container {id} is restarting, wait until the container is running"),
            Refusal::AlreadyPaused => format!("Container {id} is already paused"),
            Refusal::StartOfPaused => "cannot start a paused container, try unpause instead".to_owned(),
            Refusal::ExecOfPaused => format!("Container {name} is paused, unpause the container before exec"),
            Refusal::AttachOfPaused => format!("container {name} is paused, unpause the container before attach"),
            Refusal::RemovalOfRunning => removal("running", "Stop"),
            Refusal::RemovalOfPaused => removal("paused", "Unpause and then stop"),
            Refusal::RemovalOfRestarting => removal("restarting", "Stop"),
        };
        Error::conflict(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    const VERBS: [Verb; 14] = [
        Verb::Start,
        Verb::Stop,
        Verb::Restart,
        Verb::Kill,
        Verb::Pause,
        Verb::Unpause,
        Verb::Exec,
        Verb::Attach,
        Verb::Resize,
        Verb::Top,
        Verb::Remove,
        Verb::RemoveByForce,
        Verb::Update,
        Verb::Commit,
    ];
    const PAGE: &str = "docs/lifecycle.md";
    const BEGIN: &str = "<!-- made by a test of src/container/state.rs -->\n";
    const END: &str = "<!-- end -->\n";

    fn name(verb: Verb) -> String {
        let words = format!("{verb:?}").replace("ByForce", " by force");
        words.to_lowercase()
    }

    fn way(way: Way) -> &'static str {
        match way {
            Way::Do => "done",
            Way::Nothing => "nothing to do",
            Way::EndRestart => "gives up the restart",
            Way::EndFirst => "ends it first",
            Way::Thaw => "done, and thaws it",
            Way::Freeze => "done, frozen meanwhile",
            Way::Keep => "kept for the next start",
            Way::Wait => "ends at once, or waits",
        }
    }

    fn refusal(refusal: Refusal) -> &'static str {
        match refusal {
            Refusal::NotRunning => "refused: not running",
            Refusal::NotPaused => "refused: not paused",
            Refusal::IsRestarting => "refused: restarting",
            Refusal::AlreadyPaused => "refused: paused already",
            Refusal::StartOfPaused | Refusal::ExecOfPaused | Refusal::AttachOfPaused => "refused: paused",
            Refusal::RemovalOfRunning => "refused: runs",
            Refusal::RemovalOfPaused => "refused: frozen",
            Refusal::RemovalOfRestarting => "refused: restarts",
        }
    }

    fn table() -> String {
        let mut text = String::from("| request |");
        for status in Status::ALL {
            write!(text, " {} |", format!("{status:?}").to_lowercase()).expect("write");
        }
        text.push_str(&format!("\n|{}\n", "---|".repeat(7)));
        for verb in VERBS {
            write!(text, "| {} |", name(verb)).expect("write");
            for status in Status::ALL {
                let cell = may(verb, status).map_or_else(refusal, way);
                write!(text, " {cell} |").expect("write");
            }
            text.push('\n');
        }
        text
    }

    /// `CORACLE_WRITE_LIFECYCLE=1` writes the page.
    #[test]
    fn the_page_of_states_is_the_table() {
        let page = std::fs::read_to_string(PAGE).expect("read the page");
        let (head, rest) = page.split_once(BEGIN).expect("its beginning");
        let (_, tail) = rest.split_once(END).expect("its end");
        let wanted = format!("{head}{BEGIN}\n{}\n{END}{tail}", table());
        if std::env::var_os("CORACLE_WRITE_LIFECYCLE").is_some() {
            return std::fs::write(PAGE, wanted).expect("write the page");
        }
        assert!(page == wanted, "{PAGE} is old: CORACLE_WRITE_LIFECYCLE=1 cargo test --lib the_page_of_states");
    }

    #[test]
    fn a_refusal_says_why() {
        let said = |refusal: Refusal| refusal.error("1f2e", "web").message().to_owned();
        assert_eq!(said(Refusal::NotRunning), "Container 1f2e is not running");
        assert_eq!(said(Refusal::ExecOfPaused), "Container web is paused, unpause the container before exec");
        assert_eq!(
            said(Refusal::RemovalOfPaused),
            "You cannot remove a paused container 1f2e. Unpause and then stop the container before attempting removal or \
             force remove"
        );
    }
}
