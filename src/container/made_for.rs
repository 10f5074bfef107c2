//! The maker of a container decides who sees it, and how long it stays.

use std::path::Path;

/// A plugin that a container is to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PluginRun<'a> {
    pub id: &'a str,
    /// The place of its socket on the host.
    pub socket: &'a Path,
}

/// The maker of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MadeFor<'a> {
    User,
    /// The directory of a build: such a container is removed with the build, and is not flushed.
    Build(&'a str),
    /// A plugin, which the container runs. Lists do not show such a container.
    Plugin(PluginRun<'a>),
}
