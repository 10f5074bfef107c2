//! The kills of the OOM killer in a container that an event has announced.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many kills are announced.
    seen: u64,
    /// An event announced a kill that the count does not show yet: control groups v1 notify before they kill.
    ahead: bool,
}

impl Count {
    /// Begins to count after so many earlier kills.
    pub fn from(kills: u64) -> Count {
        Count { seen: kills, ahead: false }
    }

    /// Takes a look at the number of kills; `noticed`: the kernel has notified since the last look. Answers whether an
    /// event is to announce a kill.
    pub fn announces(&mut self, noticed: bool, kills: u64) -> bool {
        let more = kills > self.seen;
        self.seen = kills.max(self.seen);
        let announces = noticed || more && !self.ahead;
        self.ahead = !more && (noticed || self.ahead);
        announces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_before_the_start_announce_nothing() {
        let mut count = Count::from(3);
        assert!(!count.announces(false, 3));
        assert!(count.announces(false, 4));
        assert!(!count.announces(false, 4), "once for each kill that was seen");
    }

    #[test]
    fn a_notice_before_its_kill_announces_it_once() {
        let mut count = Count::from(0);
        assert!(count.announces(true, 0));
        assert!(!count.announces(false, 0));
        assert!(!count.announces(false, 1), "the notice has announced this kill");
        assert!(count.announces(false, 2), "the next one");
        assert!(count.announces(true, 3), "a notice together with its kill");
        assert!(count.announces(false, 4));
    }
}
