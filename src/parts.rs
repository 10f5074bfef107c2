//! The parts of the library that a build may leave out, each by the cargo feature of its name.
//!
//! A part is refused where a program asks for it. The answer is known to the compiler, so that the linker leaves out all that only
//! code behind a refusal calls; no other file needs to know of the features. `registry` takes crates with it, and has marks of its own.

use crate::error::{Error, Result};

/// A part that a build may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Images of build files.
    Build,
    #[cfg_attr(not(feature = "registry"), allow(dead_code))]
    /// Build contexts and sources of git repositories.
    Git,
    /// Networks of the drivers macvlan and ipvlan: bridges are always here.
    Networks,
    /// Plugins of every kind.
    Plugins,
    /// Log drivers that deliver to a receiver.
    Ship,
}

impl Part {
    /// Whether this build has the part.
    #[inline(always)]
    pub(crate) const fn is_here(self) -> bool {
        match self {
            Part::Build => cfg!(feature = "build"),
            Part::Git => cfg!(feature = "git"),
            Part::Networks => cfg!(feature = "networks"),
            Part::Plugins => cfg!(feature = "plugins"),
            Part::Ship => cfg!(feature = "ship"),
        }
    }

    /// Refuses a call that needs the part, by the part's name, if this build has been made without the part.
    #[inline(always)]
    pub(crate) fn need(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(self.missing()) }
    }

    #[cold]
    fn missing(self) -> Error {
        let (what, feature) = match self {
            Part::Build => ("builds no images", "build"),
            Part::Git => ("reads no git repositories", "git"),
            Part::Networks => ("has no network drivers but bridge", "networks"),
            Part::Plugins => ("has no plugins", "plugins"),
            Part::Ship => ("delivers no logs", "ship"),
        };
        Error::unsupported(format!("this build of the library {what} (cargo feature \"{feature}\")"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_part_that_was_left_out_is_refused_by_its_feature() {
        for (part, feature) in [
            (Part::Build, "build"),
            (Part::Git, "git"),
            (Part::Networks, "networks"),
            (Part::Plugins, "plugins"),
            (Part::Ship, "ship"),
        ] {
            assert_eq!(part.need().is_ok(), part.is_here(), "{part:?}");
            let error = part.missing();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains(&format!("(cargo feature \"{feature}\")")), "{error}");
        }
    }
}
