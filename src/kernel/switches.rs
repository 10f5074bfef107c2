//! The words that a test build (feature `attacks`) passes to each monitor in its command line. Other builds pass none.

use std::ffi::CString;

/// The switches of one engine, in addition to those of the environment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Switches {
    /// Seconds that a process may take from its appearance in a container to the start of its program.
    #[cfg(feature = "attacks")]
    pub entry_limit_s: Option<u32>,
}

impl Switches {
    /// The arguments after the program's name: switched-off walls, the seconds.
    #[cfg(feature = "attacks")]
    pub(crate) fn argv(self) -> Vec<CString> {
        let walls_off = std::env::var("CORACLE_WALLS_OFF").unwrap_or_default();
        let seconds = self.entry_limit_s.map(|seconds| seconds.to_string());
        [walls_off, seconds.unwrap_or_default()].into_iter().filter_map(|word| CString::new(word).ok()).collect()
    }

    /// The arguments after the program's name.
    #[cfg(not(feature = "attacks"))]
    #[allow(clippy::unused_self)]
    pub(crate) fn argv(self) -> Vec<CString> {
        Vec::new()
    }
}
