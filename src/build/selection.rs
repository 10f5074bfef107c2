//! The files of a source that come along: all but those that `--exclude` names.
//!
//! The patterns are asked directory by directory, as BuildKit asks them: what holds for a directory holds for all in it,
//! unless a later pattern matches the file itself.

use crate::buildfile::{Matched, Patterns};
use crate::error::Result;
use crate::kernel::walk::{Mounts, Order, Step, Walk};
use crate::op::Op;
use std::collections::HashSet;
use std::os::fd::BorrowedFd;

/// Goes along with a walk over a source, and says of each name whether it is taken.
pub(super) struct Selection<'a> {
    patterns: &'a Patterns,
    /// The path of the source, where the patterns are of paths above it, too; else empty.
    place: String,
    /// The answers for the directories down to the present one.
    above: Vec<Matched>,
    last: Matched,
    /// Excluded directories with something in them that a pattern takes back.
    needed: HashSet<Vec<u8>>,
    takes_something: bool,
}

impl<'a> Selection<'a> {
    /// For the directory `dir`. `place`: where the patterns say it lies; empty: they begin in it.
    pub(super) fn of_tree(
        dir: BorrowedFd<'_>,
        patterns: &'a Patterns,
        place: &str,
        op: Option<&Op>,
    ) -> Result<Selection<'a>> {
        let (mut needed, mut takes_something) = (HashSet::new(), false);
        if patterns.has_exceptions() {
            let mut looks = Selection::without_looking(patterns, place);
            let mut walk = Walk::new(dir, Order::AsRead, Mounts::Crossed)?;
            while let Some(step) = walk.next()? {
                op.map_or(Ok(()), Op::check)?;
                if step == Step::Left {
                    looks.leave();
                    continue;
                }
                if looks.takes(walk.path()) {
                    takes_something = true;
                    needed.extend(above(walk.path()).map(<[u8]>::to_vec));
                }
                if walk.is_dir()
                    && let Some(below) = walk.open()?
                {
                    looks.enter();
                    walk.enter(below)?;
                }
            }
        }
        Ok(Selection { needed, takes_something, ..Selection::without_looking(patterns, place) })
    }

    fn without_looking(patterns: &'a Patterns, place: &str) -> Selection<'a> {
        let place = place.trim_matches('/').to_owned();
        let last = patterns.along(&place).1;
        Selection { patterns, place, above: vec![last.clone()], last, needed: HashSet::new(), takes_something: false }
    }

    /// Whether something in the tree comes along although the tree is excluded.
    pub(super) fn takes_something(&self) -> bool {
        self.takes_something
    }

    /// Whether the name at a path in the directory comes along. An excluded directory does where something in it does.
    pub(super) fn takes(&mut self, path: &[u8]) -> bool {
        let path_text = String::from_utf8_lossy(path);
        let whole = match self.place.as_str() {
            "" => path_text,
            place => format!("{place}/{path_text}").into(),
        };
        let (ignored, matched) = self.patterns.ignores_in(&whole, self.above.last());
        self.last = matched;
        !ignored || self.needed.contains(path)
    }

    /// The walk enters the directory that [`Selection::takes`] was asked for.
    pub(super) fn enter(&mut self) {
        self.above.push(self.last.clone());
    }

    /// The walk leaves a directory.
    pub(super) fn leave(&mut self) {
        self.above.pop();
    }
}

/// The paths of the directories above a path.
fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}
