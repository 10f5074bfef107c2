//! SELinux: the labels of containers, with the types of the host's policy.
//!
//! The policy names the types of containers in `contexts/lxc_contexts`. All containers have the same types; the level
//! keeps them apart: each has a pair of categories of its own. A process writes its next label by itself before its
//! exec ([`coracle_monitor::ops::Label`]). File systems that are made for a container are mounted with its label, so
//! images need none of their own; files of the host that it sees are labelled: see [`relabel`].

mod context;
mod label_request;
pub(crate) mod relabel;

pub(crate) use context::Context;
pub(crate) use label_request::LabelRequest;

use crate::error::{Error, Result};
use crate::hex::random_bytes;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The kernel's interface to its policy.
const KERNEL: &str = "/sys/fs/selinux";

/// The host's directory of policies.
const POLICIES: &str = "/etc/selinux";

/// The number of categories in policies: `c0` to `c1023`.
const CATEGORIES: u16 = 1024;

/// How often a pair is drawn at random until one is free.
const DRAWS: u32 = 1000;

/// Whether the kernel has SELinux and a policy.
pub(crate) fn is_on() -> bool {
    // Before a policy is loaded, everything is labelled `kernel`.
    Path::new(KERNEL).join("enforce").exists()
        && std::fs::read("/proc/self/attr/current").is_ok_and(|label| label.contains(&b':'))
}

/// The types for containers in the host's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    process: Context,
    file: Context,
    /// The label of files that containers read and execute, and never write: images.
    read_only: Context,
}

/// The labels of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    /// The label of the processes; empty: the policy's label for a program that the monitor executes.
    pub process: String,
    /// Of its files.
    pub mount: String,
}

impl Policy {
    /// Reads the policy. Errors: the kernel has no SELinux, or the policy no types for containers.
    pub(crate) fn read() -> Result<Policy> {
        if !is_on() {
            return Err(Error::unsupported("selinux: this host's kernel has no SELinux, or no policy is loaded"));
        }
        let path = Policy::contexts()?;
        let text = std::fs::read_to_string(&path).map_err(|e| {
            let error = Error::io(format_args!("read {}", path.display()), &e);
            Error::unsupported(format!("selinux: the policy names no types of containers: {}", error.message()))
        })?;
        Policy::parse(&text).map_err(|error| error.context(path.display()))
    }

    fn contexts() -> Result<PathBuf> {
        let path = Path::new(POLICIES).join("config");
        let config = std::fs::read_to_string(&path).map_err(|e| {
            let error = Error::io(format_args!("read {}", path.display()), &e);
            Error::unsupported(format!("selinux: {}", error.message()))
        })?;
        match value(&config, "SELINUXTYPE") {
            Some(name) if !name.contains('/') => Ok(Path::new(POLICIES).join(name).join("contexts/lxc_contexts")),
            _ => Err(Error::unsupported(format!("selinux: {} names no policy (SELINUXTYPE)", path.display()))),
        }
    }

    /// Reads the lines `process = "..."`, `file = "..."` and `ro_file = "..."`.
    fn parse(text: &str) -> Result<Policy> {
        let context = |key: &str| {
            let text = value(text, key).ok_or_else(|| Error::unsupported(format!("selinux: no label of {key}")))?;
            text.parse::<Context>().map_err(|error| error.context(format_args!("selinux: {key}")))
        };
        let file = context("file")?;
        // Older policies have no separate type.
        let read_only = if value(text, "ro_file").is_some() { context("ro_file")? } else { file.clone() };
        Ok(Policy { process: context("process")?, file, read_only })
    }

    /// The label of images. The root of a container shows its own label instead, but for files that are mapped into
    /// memory the kernel also checks the label on disk.
    pub(crate) fn of_images(&self) -> String {
        self.read_only.to_string()
    }

    /// A level with a pair of categories that `is_free` reports as unused. Errors: none is found.
    pub(crate) fn free_level(&self, mut is_free: impl FnMut(&str) -> Result<bool>) -> Result<String> {
        let Some(sensitivity) = self.process.sensitivity() else { return Ok(String::new()) };
        for _ in 0..DRAWS {
            let number = u64::from_ne_bytes(random_bytes()?);
            let Some((low, high)) = pair(number) else { continue };
            let level = format!("{sensitivity}:c{low},c{high}");
            if is_free(&level)? {
                return Ok(level);
            }
        }
        Err(Error::unsupported("selinux: no pair of categories is free: there are too many containers"))
    }

    /// The labels for a container's request, with `level` if it names none. Only [`Labels::checked`] compares them with
    /// the kernel's policy.
    pub(crate) fn labels(&self, asked: &LabelRequest, level: &str) -> Labels {
        let LabelRequest::Own { user, role, kind, level: own, file_kind } = asked else {
            return Labels { process: String::new(), mount: self.of_the_unlabelled() };
        };
        let level = own.as_deref().unwrap_or(level);
        let (mut process, mut file) = (self.process.with_level(level), self.file.with_level(level));
        for (to, from) in [(&mut process.user, user), (&mut process.role, role), (&mut process.kind, kind)]
            .into_iter()
            .chain([(&mut file.user, user), (&mut file.kind, file_kind)])
        {
            if let Some(from) = from {
                to.clone_from(from);
            }
        }
        Labels { process: process.to_string(), mount: file.to_string() }
    }

    /// The label of files of containers whose processes have none: with the last pair, which is never given to a
    /// container.
    fn of_the_unlabelled(&self) -> String {
        let sensitivity = self.file.sensitivity().unwrap_or_default();
        self.file.with_level(&format!("{sensitivity}:c{},c{}", CATEGORIES - 2, CATEGORIES - 1)).to_string()
    }
}

impl Labels {
    /// These labels in the kernel's spelling. Errors: the policy has no such label.
    pub(crate) fn checked(&self) -> Result<Labels> {
        let one = |label: &str| if label.is_empty() { Ok(String::new()) } else { canonical(label) };
        Ok(Labels { process: one(&self.process)?, mount: one(&self.mount)? })
    }

    /// The level, which distinguishes containers; empty: the processes have no label, or the policy no levels.
    pub(crate) fn level(&self) -> String {
        self.process.parse::<Context>().map(|context| context.level).unwrap_or_default()
    }
}

/// The label of files that several containers share: that of one container's files, without its categories.
pub(crate) fn shared(mount: &str) -> Result<String> {
    let context: Context = mount.parse()?;
    let sensitivity = context.sensitivity().unwrap_or_default().to_owned();
    Ok(context.with_level(&sensitivity).to_string())
}

/// A pair of categories from a random number, the lower one first; none: try another number.
fn pair(number: u64) -> Option<(u16, u16)> {
    let category = |bits: u64| (bits % u64::from(CATEGORIES)) as u16;
    let (one, other) = (category(number), category(number >> 32));
    let (low, high) = (one.min(other), one.max(other));
    // The last pair belongs to containers without a label.
    (low != high && low != CATEGORIES - 2).then_some((low, high))
}

/// A label in the kernel's spelling. Errors: the policy has none like it.
fn canonical(label: &str) -> Result<String> {
    let path = Path::new(KERNEL).join("context");
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::EINVAL) => Error::invalid(format!("{label}: the SELinux policy has no such label")),
        _ => Error::io(format_args!("ask {} about {label}", path.display()), &error),
    };
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
    file.write_all(format!("{label}\0").as_bytes()).map_err(failed)?;
    let mut answer = String::new();
    file.read_to_string(&mut answer).map_err(failed)?;
    Ok(answer.trim_end_matches('\0').to_owned())
}

/// The value of a line `key = value`, without quotation marks.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let of = |line: &'a str| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim().trim_matches('"'))
    };
    text.lines().find_map(of).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
