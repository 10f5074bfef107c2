//! The mounts of RUN: their sources, their words in the cache, the places where the image lacks one.

use super::agent;
use super::caches::{Caches, Used, Wanted};
use super::copy::Sources;
use super::files::{Copier, open_dir, resolve, split, stat};
use super::sources::Source;
use crate::buildfile::{Heredoc, PIPES, Patterns, RunMount, RunMountKind, Sharing};
use crate::container::spec::clean;
use crate::container::{STEP_ATTRIBUTES, StepExtras, StepMount, Stub, check_mounts};
use crate::error::{Error, ErrorKind, Result};
use crate::image::Hasher;
use crate::kernel::tree::{self, Lock};
use crate::kernel::{mount, socket};
use crate::model::BuildSecret;
use crate::order::Order as _;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mounts of one RUN, understood and found.
#[derive(Default)]
pub(super) struct RunMounts {
    all: Vec<Found>,
    /// A heredoc that names its interpreter, with the digest by which the cache of steps knows it.
    program: Option<(Heredoc, String)>,
}

/// A mount whose source is found.
struct Found {
    asked: RunMount,
    /// Absolute.
    target: String,
    /// Where files come from; absent: nowhere.
    tree: Option<Tree>,
}

impl Found {
    /// The cache of a mount.
    fn cache(&self) -> Wanted<'_> {
        let asked = &self.asked;
        Wanted {
            id: &asked.id,
            content: self.tree.as_ref().map_or("", |tree| tree.hash.as_str()),
            mode: asked.mode,
            // The mount of a cache shows the container's ids.
            owner: (asked.uid, asked.gid),
            private: asked.sharing == Sharing::Private,
            lock: if asked.sharing == Sharing::Shared { Lock::Shared } else { Lock::Exclusive },
        }
    }
}

impl Held {
    /// The files of a cache that was taken.
    fn cached_dir(&self, one: &Found) -> Result<(OwnedFd, String, u64)> {
        let name = one.cache().name();
        let taken = self.caches.iter().find(|(have, _)| *have == name);
        let (_, used) = taken.ok_or_else(|| Error::internal("a cache that was not taken"))?;
        let attributes = if one.asked.read_only { libc::MOUNT_ATTR_RDONLY } else { 0 };
        Ok((copy_of(&used.data)?, String::new(), attributes))
    }
}

/// Files that a mount shows, or a cache begins with.
struct Tree {
    root: Arc<OwnedFd>,
    /// The image; absent with `is_context`, or of a stage on `scratch` that has nothing.
    image: Option<String>,
    is_context: bool,
    /// Relative to `root`, without links; empty: all of it.
    part: String,
    /// The digest by which the cache of steps knows them.
    hash: String,
}

/// Mounts that are made, and what must live as long as the step.
#[derive(Default)]
pub(super) struct MadeMounts {
    pub(super) extras: StepExtras,
    pub(super) stubs: Vec<Stub>,
    pub(super) held: Held,
}

/// Caches and agents that a step uses.
#[derive(Default)]
pub(super) struct Held {
    /// With the names of their directories: two mounts of one step share a cache, whatever its lock is.
    caches: Vec<(String, Used)>,
    agents: Vec<agent::Forwarded>,
}

impl Held {
    /// Frees the caches of a step that has ended.
    pub(super) fn free(self) {
        self.caches.into_iter().for_each(|(_, used)| used.free());
    }

    /// The locks of the caches, for the monitor of the step: they wait in the queue of a socket, which the monitor holds and
    /// nobody reads.
    fn locks(&self) -> Result<Option<OwnedFd>> {
        if self.caches.is_empty() {
            return Ok(None);
        }
        let (queue, end) = socket::packet_pair()?;
        for (_, used) in &self.caches {
            // Nobody would make room in a full queue.
            socket::send_now(end.as_fd(), b"lock", &[used.lock().as_raw_fd()])?;
        }
        Ok(Some(queue))
    }
}

/// Finds and makes the mounts of a RUN.
pub(super) struct Mounting<'s, 'a> {
    pub(super) sources: Sources<'s, 'a>,
}

impl Mounting<'_, '_> {
    /// Finds the sources of mounts. `texts`: their options, with variables put in.
    pub(super) fn find(&mut self, working_dir: &str, texts: &[String]) -> Result<RunMounts> {
        let mut found = RunMounts::default();
        for text in texts {
            let agents = found.all.iter().filter(|one| one.asked.kind == RunMountKind::Ssh).count();
            let asked = RunMount::read(text, agents)?;
            let target = place(working_dir, &asked.target)?;
            found.take_place(&asked, &target)?;
            let tree = match asked.kind {
                RunMountKind::Bind => Some(self.tree(&asked)?),
                RunMountKind::Cache if !asked.from.is_empty() => Some(self.tree(&asked)?),
                _ => None,
            };
            found.all.push(Found { asked, target, tree });
        }
        Ok(found)
    }

    /// The files that a mount shows. As those of COPY: no link leads out of the context or the image.
    fn tree(&mut self, asked: &RunMount) -> Result<Tree> {
        let failed = |error: Error| error.context("RUN --mount: source");
        let is_context = asked.from.is_empty();
        let (root, image) = match is_context {
            true => {
                let root = self.sources.context.cloned();
                (root.ok_or_else(|| failed(Error::invalid("missing build context")))?, None)
            }
            false => {
                let image = self.sources.image_of(&asked.from)?;
                (self.sources.root_of(image.as_deref())?, image)
            }
        };
        let path = clean(&asked.source);
        let excluded = &Patterns::default();
        let op = self.sources.job.op;
        let source = Source { root: root.clone(), is_context, owners: true, excluded, parents: None, op };
        let hash = source.one(path.trim_start_matches('/')).map_err(failed)?.hash;
        let part = resolve(&root, &path)?.trim_matches('/').to_owned();
        Ok(Tree { root, image, is_context, part, hash })
    }

    /// Makes the mounts of a step that runs.
    pub(super) fn make(&mut self, image: Option<&str>, found: &RunMounts) -> Result<MadeMounts> {
        let mut made = MadeMounts::default();
        if found.all.is_empty() && found.program.is_none() {
            return Ok(made);
        }
        let image = self.sources.job.shop.containers.build_steps.build_root(image)?;
        self.take_caches(found, &mut made.held)?;
        made.extras.locks = made.held.locks()?;
        // A mount on a directory of another one comes after it.
        let mut in_order: Vec<&Found> = found.all.iter().collect();
        in_order.order_by_key(|one| one.target.split('/').filter(|name| !name.is_empty()).count());
        for one in in_order {
            let mount = match one.asked.kind {
                RunMountKind::Bind => Some(self.bound(one)?),
                RunMountKind::Cache => Some(made.held.cached_dir(one)?),
                RunMountKind::Tmpfs => Some(in_memory(one)?),
                RunMountKind::Secret => self.secret(one, &mut made.extras.env)?,
                RunMountKind::Ssh => self.agent(one, &mut made)?,
            };
            let Some((root, part, attributes)) = mount else { continue };
            made.stubs.extend(stub(&image, &one.target)?);
            made.extras.mounts.push(StepMount {
                namespace: mount::alone(root.as_fd())?,
                part,
                target: one.target.clone(),
                attributes,
                own_ids: one.owners_are_the_containers(),
            });
        }
        if let Some((program, _)) = &found.program {
            made.stubs.extend(stub(&image, PIPES)?);
            made.extras.mounts.push(self.program(program)?);
        }
        Ok(made)
    }

    /// The file of a heredoc that names its interpreter, in memory.
    fn program(&self, program: &Heredoc) -> Result<StepMount> {
        let root = memory(program.content.len() as u64 + (64 << 10), 0o755)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let mut file = std::fs::File::from(tree::open_at(root.as_fd(), &program.name, flags, 0o600)?);
        file.write_all(program.content.as_bytes()).map_err(|e| Error::io("write a heredoc", &e))?;
        tree::chmod_fd(file.as_fd(), 0o755)?;
        let (uid, gid) = self.host_ids(0, 0);
        tree::chown_fd(file.as_fd(), uid, gid)?;
        // The kernel executes no file that is open for writing.
        drop(file);
        Ok(StepMount {
            namespace: mount::alone(root.as_fd())?,
            part: String::new(),
            target: PIPES.into(),
            attributes: libc::MOUNT_ATTR_RDONLY,
            own_ids: false,
        })
    }

    fn bound(&mut self, one: &Found) -> Result<(OwnedFd, String, u64)> {
        let tree = one.tree.as_ref().ok_or_else(|| Error::internal("a bind without a source"))?;
        let steps = &self.sources.job.shop.containers.build_steps;
        let is_remapped = self.sources.job.shop.options.userns_remap.is_some();
        if is_remapped && (!one.asked.read_only || !tree.is_context) {
            return Err(Error::unsupported(
                "RUN --mount: 'readwrite' and 'from' of a bind are not supported where containers have other user ids \
                 (userns_remap)",
            ));
        }
        if !one.asked.read_only {
            let (name, stage) = self.sources.job.building.directory()?;
            let place = self.sources.job.building.place().0.join(name);
            let directory = match tree.is_context {
                true => Some(path_of(&tree.root)?),
                false => None,
            };
            let root = steps.build_scratch(tree.image.as_deref(), directory.as_deref(), &stage, &place)?;
            return Ok((root, tree.part.clone(), 0));
        }
        let root = match tree.is_context {
            true => copy_of(&tree.root)?,
            false => steps.build_mount(tree.image.as_deref())?,
        };
        Ok((root, tree.part.clone(), libc::MOUNT_ATTR_RDONLY))
    }

    /// Takes the caches of a step in the order of their names, so that two steps do not wait for each other. A cache that
    /// several mounts name is taken once, as the strictest of them asks.
    fn take_caches(&mut self, found: &RunMounts, held: &mut Held) -> Result<()> {
        let mut all: BTreeMap<String, (Wanted<'_>, &Found)> = BTreeMap::new();
        for one in found.all.iter().filter(|one| one.asked.kind == RunMountKind::Cache) {
            let wanted = one.cache();
            match all.entry(wanted.name()) {
                Entry::Vacant(new) => drop(new.insert((wanted, one))),
                Entry::Occupied(mut same) => {
                    let (first, _) = same.get_mut();
                    first.private |= wanted.private;
                    first.lock = if wanted.lock == Lock::Exclusive { Lock::Exclusive } else { first.lock };
                }
            }
        }
        let op = self.sources.job.op;
        for (name, (wanted, one)) in all {
            let fill = |data: &OwnedFd| match &one.tree {
                None => Ok(()),
                Some(tree) => {
                    let excluded = &Patterns::default();
                    let copier = Copier { owner: None, mode: None, excluded, op };
                    copier.content(&open_dir(&tree.root, &format!("/{}", tree.part))?, data)
                }
            };
            let used = Caches::open(self.sources.job.shop.containers.places.root())?.take(&wanted, &fill, op)?;
            held.caches.push((name, used));
        }
        Ok(())
    }

    /// A secret in memory, or as a variable.
    fn secret(&self, one: &Found, env: &mut Vec<String>) -> Result<Option<(OwnedFd, String, u64)>> {
        let asked = &one.asked;
        let Some(secret) = self.sources.job.request.secrets.iter().find(|secret| secret.id == asked.id) else {
            return match asked.required {
                true => Err(Error::not_found(format!("RUN --mount: secret {}: not found", asked.id))),
                false => Ok(None),
            };
        };
        let Some(value) = value_of(secret)? else {
            return match asked.required {
                true => Err(Error::not_found(format!("RUN --mount: secret {}: not found", asked.id))),
                false => Ok(None),
            };
        };
        if !asked.env.is_empty() {
            let text = String::from_utf8(value.clone()).ok().filter(|text| !text.contains('\0'));
            let text = text.ok_or_else(|| {
                Error::invalid(format!("RUN --mount: secret {}: its value cannot be a variable", asked.id))
            })?;
            env.push(format!("{}={text}", asked.env));
        }
        if one.target.is_empty() {
            return Ok(None);
        }
        let root = memory(value.len() as u64 + (64 << 10), 0o700)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let mut file = std::fs::File::from(tree::open_at(root.as_fd(), SECRET, flags, 0o600)?);
        file.write_all(&value).map_err(|e| Error::io("write a secret", &e))?;
        let (uid, gid) = self.ids(asked);
        tree::chown_fd(file.as_fd(), uid, gid)?;
        tree::chmod_fd(file.as_fd(), asked.mode)?;
        Ok(Some((root, SECRET.into(), libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOEXEC)))
    }

    fn agent(&self, one: &Found, made: &mut MadeMounts) -> Result<Option<(OwnedFd, String, u64)>> {
        let asked = &one.asked;
        let Some(ssh) = self.sources.job.request.ssh.iter().find(|ssh| ssh.id == asked.id) else {
            return match asked.required {
                true => Err(Error::not_found(format!(
                    "RUN --mount: ssh {}: the build has no agent of that id (option ssh)",
                    asked.id
                ))),
                false => Ok(None),
            };
        };
        let (name, stage) = self.sources.job.building.directory()?;
        let place = self.sources.job.building.place().0.join(name);
        made.held.agents.push(agent::Forwarded::start(&place, Path::new(&ssh.socket), &ssh.id)?);
        let (uid, gid) = self.ids(asked);
        tree::chown_at(stage.dir.as_fd(), agent::SOCKET, uid, gid)?;
        tree::chmod_at(stage.dir.as_fd(), agent::SOCKET, asked.mode)?;
        made.extras.env.retain(|entry| !entry.starts_with("SSH_AUTH_SOCK="));
        made.extras.env.push(format!("SSH_AUTH_SOCK={}", one.target));
        Ok(Some((copy_of(&stage.dir)?, agent::SOCKET.into(), 0)))
    }

    /// The owner of a file as the host sees it.
    fn ids(&self, asked: &RunMount) -> (u32, u32) {
        self.host_ids(asked.uid, asked.gid)
    }

    fn host_ids(&self, uid: u32, gid: u32) -> (u32, u32) {
        let remap = self.sources.job.shop.options.userns_remap;
        remap.map_or((uid, gid), |remap| (uid.saturating_add(remap.uid), gid.saturating_add(remap.gid)))
    }
}

/// The absolute place of a mount; empty for a secret that is a variable alone.
fn place(working_dir: &str, asked: &str) -> Result<String> {
    let target = match asked {
        "" => return Ok(String::new()),
        absolute if absolute.starts_with('/') => clean(absolute),
        below => clean(&format!("{working_dir}/{below}")),
    };
    match target.as_str() {
        "/" => Err(Error::invalid("RUN --mount: invalid mount target \"/\"")),
        _ => Ok(target),
    }
}

/// The name of a secret's file in its own file system.
const SECRET: &str = "secret";

impl RunMounts {
    /// Refuses one more mount, if the step has too many then: before any cache of the step is locked.
    fn take_place(&self, asked: &RunMount, target: &str) -> Result<()> {
        // A secret may be a variable alone.
        let here = |target: &str| usize::from(!target.is_empty());
        let count = self.all.iter().map(|one| here(&one.target)).sum::<usize>() + here(target);
        let kinds = self.all.iter().map(|one| &one.asked).chain([asked]);
        check_mounts(count, kinds.map(|asked| asked.kind).any(|kind| kind == RunMountKind::Cache))
    }

    /// Adds the place of a heredoc that names its interpreter.
    pub(super) fn add_program(&mut self, program: Option<&Heredoc>) -> Result<()> {
        let Some(program) = program else { return Ok(()) };
        if self.all.iter().any(|one| one.target == PIPES || one.target.starts_with(&format!("{PIPES}/"))) {
            let text = format!("RUN --mount: {PIPES} is the place of the heredoc");
            return Err(Error::invalid(text));
        }
        let is_cache = self.all.iter().any(|one| one.asked.kind == RunMountKind::Cache);
        check_mounts(self.all.iter().filter(|one| !one.target.is_empty()).count() + 1, is_cache)?;
        let mut hash = Hasher::new();
        hash.update(program.content.as_bytes());
        self.program = Some((program.clone(), hash.finish().to_string()));
        Ok(())
    }

    /// The words that stand for the mounts in the cache and the history: no content of a secret.
    pub(super) fn words(&self) -> Vec<String> {
        let program = self.program.as_ref().map(|(_, hash)| format!("--mount=type=bind,target={PIPES},source={hash}"));
        self.all.iter().map(Found::word).chain(program).collect()
    }
}

impl Found {
    fn word(&self) -> String {
        let RunMount { kind, id, read_only, mode, uid, gid, size, env, required, sharing, .. } = &self.asked;
        let mut word = format!("--mount=type={},target={}", kind.word(), self.target);
        let mut add = |name: &str, value: &dyn std::fmt::Display| word.push_str(&format!(",{name}={value}"));
        if let Some(tree) = &self.tree {
            add("source", &tree.hash);
        }
        match kind {
            RunMountKind::Bind => add("readonly", read_only),
            RunMountKind::Tmpfs => size.iter().for_each(|size| add("size", size)),
            RunMountKind::Cache | RunMountKind::Secret | RunMountKind::Ssh => {
                add("id", id);
                add("mode", &format_args!("{mode:o}"));
                add("uid", uid);
                add("gid", gid);
            }
        }
        match kind {
            RunMountKind::Cache => {
                add("readonly", read_only);
                add("sharing", &format_args!("{sharing:?}"));
            }
            RunMountKind::Secret | RunMountKind::Ssh => add("required", required),
            _ => {}
        }
        if !env.is_empty() {
            add("env", env);
        }
        word
    }

    fn owners_are_the_containers(&self) -> bool {
        let of_context = self.tree.as_ref().is_some_and(|tree| tree.is_context) && self.asked.read_only;
        self.asked.kind == RunMountKind::Cache || self.asked.kind == RunMountKind::Bind && of_context
    }
}

fn in_memory(one: &Found) -> Result<(OwnedFd, String, u64)> {
    let size = one.asked.size.map(|size| size.to_string());
    let mut options = vec![("mode", "1777")];
    options.extend(size.as_deref().map(|size| ("size", size)));
    Ok((mount::file_system("tmpfs", "tmpfs", &options, STEP_ATTRIBUTES)?, String::new(), 0))
}

fn memory(size: u64, mode: u32) -> Result<OwnedFd> {
    let (size, mode) = (size.to_string(), format!("{mode:o}"));
    let mount = mount::file_system("tmpfs", "tmpfs", &[("size", &size), ("mode", &mode)], STEP_ATTRIBUTES)?;
    Ok(mount)
}

/// A detached mount of an open directory, for a step.
fn copy_of(dir: &OwnedFd) -> Result<OwnedFd> {
    mount::private(mount::copy_of(Some(dir.as_fd()), Path::new(""), false)?, STEP_ATTRIBUTES)
}

fn path_of(dir: &OwnedFd) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Ok(std::ffi::OsString::from_vec(tree::path_of(dir.as_fd())?).into())
}

/// Most bytes of a secret, as BuildKit has it.
const MAX_SECRET: u64 = 500 << 10;

/// A secret's value; `None`: the variable that would have it is not set.
fn value_of(secret: &BuildSecret) -> Result<Option<Vec<u8>>> {
    let named = |error: Error| error.context(format_args!("secret {}", secret.id));
    let value = match (&secret.value, secret.src.as_str(), secret.env.as_str()) {
        (Some(value), "", "") => value.clone().into_bytes(),
        (None, "", "") => return Err(named(Error::invalid("one of value, src and env is needed"))),
        (None, src, "") => crate::kernel::file::read_bounded(Path::new(src), MAX_SECRET + 1)
            .map_err(named)?
            .ok_or_else(|| named(Error::new(ErrorKind::NotFound, format!("{src}: no such file"))))?,
        (None, "", env) => match std::env::var_os(env) {
            Some(value) => std::os::unix::ffi::OsStringExt::into_vec(value),
            None => return Ok(None),
        },
        _ => return Err(named(Error::invalid("only one of value, src and env says what it is"))),
    };
    match value.len() as u64 > MAX_SECRET {
        true => Err(named(Error::invalid(format!("it has more than {MAX_SECRET} bytes")))),
        false => Ok(Some(value)),
    }
}

/// The place of a mount, where the image does not have it.
fn stub(image: &OwnedFd, target: &str) -> Result<Option<Stub>> {
    let path = resolve(image, target)?;
    if stat(image, &path)?.is_some() {
        return Ok(None);
    }
    let mut above = path.as_str();
    while !above.is_empty() && stat(image, above)?.is_none() {
        above = split(above).0;
    }
    let kept = above.split('/').filter(|part| !part.is_empty()).count();
    Ok(Some(Stub { path, kept }))
}
