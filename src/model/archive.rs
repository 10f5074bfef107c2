//! Copying files into and out of containers, and making images of them.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use super::ContainerConfig;
use serde::{Deserialize, Serialize};

/// The facts of a file of a container: `X-Docker-Container-Path-Stat`.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let file = engine.container_archive_stat("clock", "/etc/hosts", None)?;
/// println!("{} {} bytes, mode {:o}, changed {}", file.name, file.size, file.mode & 0o777, file.mtime);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStat {
    /// The last component of the requested path; `.` if the path ends in `/.`, `/` for the root.
    pub name: String,
    /// Bytes of a file; of a directory or a link what the file system says.
    pub size: i64,
    /// Go's file mode: permission bits, and directory 1<<31, symlink 1<<27, device 1<<26, pipe 1<<25, socket 1<<24,
    /// setuid 1<<23, setgid 1<<22, char device 1<<21, sticky 1<<20.
    pub mode: u32,
    /// RFC 3339 with nanoseconds.
    pub mtime: String,
    /// The target of a symbolic link in the container; empty for any other file.
    #[serde(rename = "linkTarget")]
    pub link_target: String,
}

/// How an archive is extracted into a container.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::PutArchive;
///
/// let mut tar = std::fs::File::open("site.tar")?;
/// engine.container_archive_put("clock", "/site", &mut tar, PutArchive::default(), None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PutArchive {
    /// Only a directory may replace a directory, and only a file a file.
    pub no_overwrite_dir_non_dir: bool,
    /// The files get the container's user and its group as their owners, in place of those that the archive names. If the
    /// container's configuration names no user, this changes nothing.
    pub copy_uid_gid: bool,
}

/// How an image is made of a container.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::CommitContainer;
///
/// let how = CommitContainer {
///     repo: "site".into(),
///     changes: vec!["CMD [\"httpd\"]".into()],
///     ..Default::default()
/// };
/// let image = engine.container_commit("clock", &how, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitContainer {
    /// Name of the image; empty: none.
    pub repo: String,
    /// Tag of the image; empty: `latest`.
    pub tag: String,
    /// The comment in the image's history.
    pub comment: String,
    /// The author in the image's configuration, such as `Ada <ada@harbour.example>`.
    pub author: String,
    /// Freeze the container during the commit.
    pub pause: bool,
    /// Build instructions laid over the configuration.
    pub changes: Vec<String>,
    /// Configuration laid over the container's; absent: the container's own.
    pub config: Option<ContainerConfig>,
}

impl Default for CommitContainer {
    fn default() -> CommitContainer {
        CommitContainer {
            repo: String::new(),
            tag: String::new(),
            comment: String::new(),
            author: String::new(),
            pause: true,
            changes: Vec::new(),
            config: None,
        }
    }
}
