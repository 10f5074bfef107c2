//! Whose turn it is: no log of a receiver keeps the others from theirs, also when the receiver breaks at that log alone.

use super::Source;
use crate::cursor::Fault;
use crate::drivers::Manner;
use std::collections::BTreeMap;

/// The order of turns.
#[derive(Default)]
pub(super) struct Order {
    /// The log that had the last turn: the next round begins behind it, also when it did not come to its end.
    last: Option<u64>,
    /// The connection broke under the bytes of several logs. Until bytes are delivered again, those of one log are on
    /// their way at a time: the connection of a log that the receiver cannot bear takes none of the others along.
    is_careful: bool,
}

impl Order {
    /// The logs that may have records, in the order of their turns. `is_awaiting`: bytes are on their way.
    pub(super) fn ready(&self, sources: &BTreeMap<u64, Source>, is_awaiting: bool) -> Vec<u64> {
        let of = sources.iter().filter(|(at, source)| self.may(**at, is_awaiting) && source.due().is_zero());
        let mut ready: Vec<u64> = of.map(|(at, _)| *at).collect();
        let first = ready.iter().position(|at| Some(*at) > self.last).unwrap_or(0);
        ready.rotate_left(first);
        ready
    }

    /// Whether a log may have a turn now.
    pub(super) fn may(&self, at: u64, is_awaiting: bool) -> bool {
        !self.is_careful || !is_awaiting || self.last == Some(at)
    }

    /// Whether a round ends behind the turn that it began.
    pub(super) fn is_round_over(&self, sent: bool) -> bool {
        self.is_careful && sent
    }

    /// A log has its turn.
    pub(super) fn begin_turn(&mut self, at: u64) {
        self.last = Some(at);
    }

    /// Bytes were delivered.
    pub(super) fn is_well_again(&mut self) {
        self.is_careful = false;
    }

    /// After the connection broke: if it was that of one log, that log has a pause of its own.
    pub(super) fn blame(&mut self, manner: Manner, sources: &mut BTreeMap<u64, Source>, (fault, errno): (Fault, i32)) {
        // A receiver that cannot be reached says nothing about any log.
        if sources.len() < 2 || !matches!(fault, Fault::Send | Fault::Refused) {
            return;
        }
        // Datagrams and requests are delivered within their turn.
        let is_of_one = manner != Manner::Stream || self.is_careful;
        self.is_careful = manner == Manner::Stream;
        if let Some(source) = self.last.filter(|_| is_of_one).and_then(|last| sources.get_mut(&last)) {
            source.hold(fault, errno);
        }
    }
}
