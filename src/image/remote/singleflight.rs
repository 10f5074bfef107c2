//! One download per layer: a pull that needs what another of this program is fetching waits for it.

use crate::error::Result;
use crate::image::digest::Digest;
use crate::walls::Wall;
use parking_lot::{Condvar, Mutex};
use std::collections::HashSet;
use std::time::Duration;

/// The layers that pulls are fetching.
#[derive(Default)]
pub(in crate::image) struct Flights {
    busy: Mutex<HashSet<Digest>>,
    ended: Condvar,
}

/// The right to fetch some layers; ends when dropped.
pub(super) struct Claims<'a> {
    flights: &'a Flights,
    pub(super) held: Vec<Digest>,
}

impl Flights {
    /// Takes the right to fetch those of `wanted` that the store does not have, waiting where others fetch them.
    ///
    /// Everyone takes them in the same order, so that no two wait for each other. `still` answers, for one of them,
    /// what is asked at each turn whether to wait on: its error ends the waiting.
    pub(super) fn claim<W: FnMut() -> Result<()>>(
        &self,
        wanted: impl Iterator<Item = Digest>,
        has: impl Fn(&Digest) -> Result<bool>,
        still: impl Fn(&Digest) -> W,
    ) -> Result<Claims<'_>> {
        let mut wanted: Vec<Digest> = wanted.collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut claims = Claims { flights: self, held: Vec::new() };
        for digest in wanted {
            if has(&digest)? {
                continue;
            }
            let mut wait_on = still(&digest);
            let mut busy = self.busy.lock();
            while !busy.insert(digest) {
                self.ended.wait_for(&mut busy, Duration::from_millis(50));
                wait_on()?;
            }
            drop(busy);
            claims.held.push(digest);
            // The program that held the lock before may have brought the layer.
            if has(&digest)? {
                claims.release_last();
            }
        }
        Ok(claims)
    }
}

impl Claims<'_> {
    fn release_last(&mut self) {
        if let Some(digest) = self.held.pop() {
            self.flights.busy.lock().remove(&digest);
            self.flights.ended.notify_all();
        }
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        while !self.held.is_empty() && Wall::ClaimsReleased.stands() {
            self.release_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn the_second_waits_and_finds_it_there() {
        let (flights, fetched) = (Flights::default(), AtomicU32::new(0));
        let layer = Digest::of(b"layer");
        let stored = Mutex::new(HashSet::new());
        let pull = || {
            let has = |digest: &Digest| Ok(stored.lock().contains(digest));
            let claims = flights.claim([layer].into_iter(), has, |_| || Ok(())).unwrap();
            for digest in &claims.held {
                std::thread::sleep(Duration::from_millis(30));
                fetched.fetch_add(1, Ordering::SeqCst);
                stored.lock().insert(*digest);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(pull);
            }
        });
        assert_eq!(fetched.load(Ordering::SeqCst), 1);
        assert!(flights.busy.lock().is_empty());
    }
}
