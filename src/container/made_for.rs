//! The maker of a container decides who sees it, and how long it stays.

/// The maker of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MadeFor<'a> {
    User,
    /// The directory of a build: such a container is removed with the build, and is not flushed.
    Build(&'a str),
    /// The id of a plugin, which the container runs. Lists do not show such a container.
    Plugin(&'a str),
}
