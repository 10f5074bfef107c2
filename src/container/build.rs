//! Containers of builds: each runs one step, and its writable directory becomes a layer.
//!
//! The name of the build's directory in `tmp/` says to which build such a container belongs: an open that finds the
//! container without its build removes it. The engine flushes none of its files, and its overlay flushes nothing when
//! it is unmounted: the files are durable when the build is.

use super::made_for::MadeFor;
use super::start::Begin;
use super::step_mounts::{DirFacts, StepExtras, Stub};
use super::{Creator, Ends, Files, Finder, Monitors, Places, Register, Remover, Starter, Waits, dirs};
use crate::error::{Error, Result};
use crate::image::Images;
use crate::image::{Digest, SharedBuilding, Stage};
use crate::kernel::path::{IN_ROOT, openat2};
use crate::kernel::{fd, mount, tree};
use crate::log::Channel;
use crate::model::{AttachStreams, CreateBody, RemoveContainer};
use crate::op::Op;
use crate::store::{Flush, containers as table};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Output is read in pieces of this many bytes.
const CHUNK: usize = 32 << 10;

/// In a tree that the engine writes to, no program is executed and no device is opened.
pub(super) const WRITE_ATTRIBUTES: u64 = libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// In a tree that a step mounts, no device is opened, and no program gets another user's rights.
pub(crate) const STEP_ATTRIBUTES: u64 = libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID;

/// A container that runs one step of a build.
pub(crate) struct BuildStep<'a> {
    all: &'a BuildSteps,
    pub(crate) id: String,
}

/// The containers of builds.
pub(crate) struct BuildSteps {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) finder: Arc<Finder>,
    pub(super) files: Arc<Files>,
    pub(super) starter: Arc<Starter>,
    pub(super) waits: Arc<Waits>,
    pub(super) creator: Arc<Creator>,
    pub(super) remover: Arc<Remover>,
    pub(super) images: Arc<Images>,
}

impl BuildSteps {
    /// Makes the container of a step; returns it, and warnings for the user.
    pub(crate) fn build_step(
        &self,
        body: &CreateBody,
        building: &SharedBuilding<'_>,
    ) -> Result<(BuildStep<'_>, Vec<String>)> {
        let (_, builder) = building.place();
        let made = self.creator.create_for(None, body, MadeFor::Build(builder))?;
        Ok((BuildStep { all: self, id: made.id }, made.warnings))
    }

    /// The step of a container that [`BuildSteps::build_step`] made.
    pub(crate) fn known_build_step(&self, id: &str) -> BuildStep<'_> {
        BuildStep { all: self, id: id.to_owned() }
    }

    /// An image's tree, for reading; absent: an empty one.
    pub(crate) fn build_root(&self, image: Option<&str>) -> Result<OwnedFd> {
        match image {
            Some(image) => self.places.image_root(image),
            None => tree::open_dir(&self.places.empty()?),
        }
    }

    /// An image's tree, for a step to read and to run programs of.
    pub(crate) fn build_mount(&self, image: Option<&str>) -> Result<OwnedFd> {
        self.places.image_mount(image, None, libc::MOUNT_ATTR_RDONLY | STEP_ATTRIBUTES)
    }

    /// A tree for a step to write to: changes go to `diff` in the directory `stage`, which lies at `place`, and are lost
    /// with it. `directory`: the tree below; else an image's.
    pub(crate) fn build_scratch(
        &self,
        image: Option<&str>,
        directory: Option<&Path>,
        stage: &Stage,
        place: &Path,
    ) -> Result<OwnedFd> {
        for name in ["diff", "work"] {
            tree::mkdir_at(stage.dir.as_fd(), name, 0o755)?;
            tree::chmod_fd(tree::open_dir_at(stage.dir.as_fd(), name)?.as_fd(), 0o755)?;
        }
        let mut layers = image.map_or(Ok(Vec::new()), |image| self.images.catalog.rootfs(image))?;
        layers.extend(directory.map(Path::to_owned));
        if layers.is_empty() {
            layers.push(self.places.empty()?);
        }
        let lower: Vec<&Path> = layers.iter().map(PathBuf::as_path).collect();
        mount::overlay_unflushed(&lower, &place.join("diff"), &place.join("work"), STEP_ATTRIBUTES)
    }

    /// An image's tree, for writing: changes go to `diff` in the directory `stage`, which lies at `place`.
    pub(crate) fn build_overlay(&self, image: Option<&str>, stage: &Stage, place: &Path) -> Result<OwnedFd> {
        for name in ["diff", "work"] {
            tree::mkdir_at(stage.dir.as_fd(), name, 0o755)?;
            tree::chmod_fd(tree::open_dir_at(stage.dir.as_fd(), name)?.as_fd(), 0o755)?;
        }
        let mut layers = image.map_or(Ok(Vec::new()), |image| self.images.catalog.rootfs(image))?;
        if layers.is_empty() {
            layers.push(self.places.empty()?);
        }
        let lower: Vec<&Path> = layers.iter().map(PathBuf::as_path).collect();
        mount::overlay_unflushed(&lower, &place.join("diff"), &place.join("work"), WRITE_ATTRIBUTES)
    }

    /// Removes a container that an earlier step left.
    pub(crate) fn remove_build_step(&self, id: &str) -> Result<()> {
        let how = RemoveContainer { force: true, volumes: true, ..RemoveContainer::default() };
        self.remover.remove(id, how, None)
    }

    /// Turns containers that a build leaves, once the build is on disk, into ordinary ones that can be started again.
    pub(crate) fn keep_build_steps(&self, ids: &[String]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        // Nothing has flushed the files of the steps yet.
        tree::sync_fs(tree::open_dir(&self.places.root)?.as_fd())?;
        for id in ids {
            // Marks the overlay as volatile; with the mark it could not be mounted again.
            dirs::remove(&self.places.dir(id).join("work/work/incompat"))?;
        }
        self.register.db.write(Flush::Durable, |tx| ids.iter().try_for_each(|id| table::clear_builder(tx, id)))
    }

    /// Removes the containers of builds whose program was killed.
    pub(super) fn end_lost_builds(&self) -> Result<()> {
        for (id, builder) in self.register.db.read(table::of_builds)? {
            if !self.images.builds.is_building(&builder) {
                // The next open retries a failed removal.
                let _ = self.remove_build_step(&id);
            }
        }
        Ok(())
    }
}

impl BuildStep<'_> {
    /// Runs the step to its end, with mounts and variables that are not stored; `take` receives its output. Returns the
    /// exit code. A cancelled step is killed.
    pub(crate) fn run(
        &self,
        extras: StepExtras,
        take: &mut dyn FnMut(Channel, &[u8]) -> Result<()>,
        op: Option<&Op>,
    ) -> Result<i32> {
        let want = AttachStreams { stdin: false, stdout: true, stderr: true };
        let mut ends = Ends::new(super::Io::default(), want, false)?;
        let mut open = vec![];
        open.extend(ends.stdout.take().map(|fd| (Channel::Stdout, fd)));
        open.extend(ends.stderr.take().map(|fd| (Channel::Stderr, fd)));
        let begin = Begin { session: Some(ends.streams), size: (0, 0), step: extras };
        self.all.starter.start_with(&self.id, begin, op)?;
        pass_on(open, take, op)?;
        self.all.waits.wait(&self.id, op)
    }

    /// Takes away the places that were made for the mounts of a step that ended.
    pub(crate) fn remove_stubs(&self, stubs: &[Stub], op: Option<&Op>) -> Result<()> {
        if stubs.is_empty() {
            return Ok(());
        }
        let (_busy, found) = self.all.finder.lock(&self.id, op)?;
        drop(self.all.monitors.lock_alive(&found)?);
        self.all.monitors.let_go_of_root(&found)?;
        let upper = tree::open_dir(&self.all.places.dir(&self.id).join("upper"))?;
        let image = self.all.build_root(Some(&found.row.image_id))?;
        let facts = |path: &str| directory(&image, path);
        stubs.iter().try_for_each(|stub| stub.remove(&upper, &facts))
    }

    /// Makes a layer of the container's changes; `stays`: the container is kept, so its files are copied.
    pub(crate) fn layer(&self, building: &SharedBuilding<'_>, stays: bool, op: Option<&Op>) -> Result<Option<Digest>> {
        let (_busy, found) = self.all.finder.lock(&self.id, op)?;
        if stays {
            return building.layer_of_tar(&mut |out| self.all.files.write_layer(&found, out, op));
        }
        drop(self.all.monitors.lock_alive(&found)?);
        self.all.monitors.let_go_of_root(&found)?;
        let dir = tree::open_dir(&self.all.places.dir(&self.id))?;
        building.layer_of(&dir, "upper", op)
    }
}

/// The facts of a directory of an image.
fn directory(root: &OwnedFd, path: &str) -> Result<Option<DirFacts>> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    match openat2(root.as_fd(), path.trim_start_matches('/'), flags, 0, IN_ROOT) {
        Ok(dir) => DirFacts::of(dir.as_fd()).map(Some),
        Err(error) if error.is(libc::ENOENT) || error.is(libc::ENOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads streams to their end.
fn pass_on(
    mut open: Vec<(Channel, OwnedFd)>,
    take: &mut dyn FnMut(Channel, &[u8]) -> Result<()>,
    op: Option<&Op>,
) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    while !open.is_empty() {
        op.map_or(Ok(()), Op::check)?;
        let mut set: Vec<(i32, i16)> = open.iter().map(|(_, fd)| (fd.as_raw_fd(), libc::POLLIN)).collect();
        set.extend(op.map(|op| (op.cancel_fd().as_raw_fd(), libc::POLLIN)));
        // An op may have a deadline or a heartbeat, so it is checked from time to time.
        let ready = fd::poll(&set, op.map_or(-1, |_| 100))?;
        let mut ended = Vec::new();
        for (index, (channel, fd)) in open.iter().enumerate() {
            if ready[index] == 0 {
                continue;
            }
            match nix::unistd::read(fd, &mut buffer) {
                Ok(0) => ended.push(index),
                Ok(length) => take(*channel, &buffer[..length])?,
                Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => {}
                Err(errno) => return Err(Error::os("read output", errno as i32)),
            }
        }
        for index in ended.into_iter().rev() {
            open.remove(index);
        }
    }
    Ok(())
}
