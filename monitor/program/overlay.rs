//! The overlay that becomes a container's root.

use crate::ops::{List, Overlay, Text};
use crate::sys::{self, *};
use crate::text::Writer;
use crate::wire::{OVERLAY_IDMAP, OVERLAY_VOLATILE};

/// Mounts an overlay, detached; answers its descriptor. `userns`: the user namespace whose owners the files get, if the
/// plan says so. `label`: the SELinux label of all files as a C string; empty if the files keep the labels that they
/// have on the disk.
pub fn mount(op: &Overlay, userns: i32, label: &[u8]) -> Result<i32> {
    let Overlay { upper, work, flags, lower } = *op;
    let volatile = flags & OVERLAY_VOLATILE != 0;
    let userns = if flags & OVERLAY_IDMAP != 0 { userns } else { -1 };
    let layers = Layers { upper: upper.cstr(), work: work.cstr(), lower, userns, label };
    if sys::release() < (6, 5) {
        // Kernels before 6.5 accept each step, refuse the last one, and write that into the kernel's log.
        return by_one_string(layers, volatile);
    }
    match by_steps(layers, volatile) {
        Err(EINVAL) => by_one_string(layers, volatile),
        other => other,
    }
}

#[derive(Clone, Copy)]
struct Layers<'a> {
    upper: &'a [u8],
    work: &'a [u8],
    /// Paths, topmost first.
    lower: List<'a, Text<'a>>,
    /// The user namespace of the owners; -1 if there is none.
    userns: i32,
    label: &'a [u8],
}

/// One directory a step, as Linux 6.7 and newer accept them. Paths may have any form.
fn by_steps(layers: Layers, volatile: bool) -> Result<i32> {
    let fs = sys::fsopen(b"overlay\0")?;
    let mut open = Open::new();
    let mut made = || {
        if layers.userns >= 0 {
            for path in layers.lower.iter() {
                let dir = open.layer(path.cstr(), layers.userns)?;
                set(fs, b"lowerdir+\0", dir)?;
            }
            let [upper, work] = open.own(&layers)?;
            set(fs, b"upperdir\0", upper)?;
            set(fs, b"workdir\0", work)?;
        } else {
            for path in layers.lower.iter() {
                sys::fsconfig(fs, b"lowerdir+\0", path.cstr())?;
            }
            sys::fsconfig(fs, b"upperdir\0", layers.upper)?;
            sys::fsconfig(fs, b"workdir\0", layers.work)?;
        }
        if volatile {
            sys::fsconfig(fs, b"volatile\0", b"\0")?;
        }
        if layers.label.len() > 1 {
            sys::fsconfig(fs, b"context\0", layers.label)?;
        }
        sys::fs_create(fs)?;
        sys::fsmount(fs, 0)
    };
    let mount = made();
    sys::close(fs);
    open.close()?;
    mount
}

/// A directory by its descriptor.
fn set(fs: i32, key: &[u8], dir: i32) -> Result<()> {
    sys::fsconfig(fs, key, by_descriptor(dir, &mut [0; 40]))
}

pub fn by_descriptor(dir: i32, buffer: &mut [u8; 40]) -> &[u8] {
    let mut text = Writer::new(buffer);
    text.bytes(b"/proc/self/fd/").number(i64::from(dir)).bytes(b"\0");
    text.done()
}

/// Older kernels accept one string for all directories, at most a page long, in which colons and commas have a meaning.
/// Names by descriptor are short and have neither.
fn by_one_string(layers: Layers, volatile: bool) -> Result<i32> {
    let mut buffer = [0u8; 4096];
    let mut text = Writer::new(&mut buffer);
    let mut open = Open::new();
    let [upper, work] = open.own(&layers)?;
    text.bytes(b"upperdir=/proc/self/fd/").number(i64::from(upper));
    text.bytes(b",workdir=/proc/self/fd/").number(i64::from(work));
    for (index, path) in layers.lower.iter().enumerate() {
        let dir = open.layer(path.cstr(), layers.userns)?;
        text.bytes(if index == 0 { b",lowerdir=" } else { b":" }).bytes(b"/proc/self/fd/").number(i64::from(dir));
    }
    if let [label @ .., 0] = layers.label
        && !label.is_empty()
    {
        // Commas of the text do not end an option there.
        text.bytes(b",context=\"").bytes(label).bytes(b"\"");
    }
    text.bytes(if volatile { b",volatile\0" } else { b"\0" });
    if text.full {
        return Err(E2BIG);
    }
    let options = text.done();
    // mount(2) needs a place. /proc of this mount namespace serves for a moment; a clone of the mount is kept.
    let mounted = sys::mount(b"overlay\0", b"/proc\0", b"overlay\0", 0, options);
    let mount = mounted.and_then(|()| {
        let mount = sys::open_tree(AT_FDCWD, b"/proc\0", 1);
        sys::umount_detach(b"/proc\0")?;
        mount
    });
    open.close()?;
    mount
}

/// Directories that are open while the kernel looks them up.
struct Open {
    fds: [i32; 160],
    /// Which of them are mounts that are attached to the namespace for now.
    placed: [bool; 160],
    count: usize,
}

impl Open {
    fn new() -> Open {
        Open { fds: [-1; 160], placed: [false; 160], count: 0 }
    }

    fn keep(&mut self, fd: i32) -> Result<i32> {
        match self.fds.get_mut(self.count) {
            Some(slot) => {
                *slot = fd;
                self.count += 1;
                Ok(fd)
            }
            None => {
                sys::close(fd);
                Err(E2BIG)
            }
        }
    }

    fn layer(&mut self, path: &[u8], userns: i32) -> Result<i32> {
        match userns {
            -1 => self.keep(sys::openat(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0)?),
            _ => self.mapped(path, path, userns),
        }
    }

    /// A directory through a mount of its own, with the owners of a user namespace. Kernels before 6.15 make no overlay
    /// of detached mounts: for them the mount is attached at `place` meanwhile.
    fn mapped(&mut self, path: &[u8], place: &[u8], userns: i32) -> Result<i32> {
        let tree = self.keep(sys::open_tree(AT_FDCWD, path, 1)?)?;
        sys::mount_idmap(tree, false, userns)?;
        if sys::release() < (6, 15) {
            sys::move_mount_at(tree, AT_FDCWD, place)?;
            if let Some(placed) = self.placed.get_mut(self.count - 1) {
                *placed = true;
            }
        }
        Ok(tree)
    }

    /// The upper and the work directory, which lie in one directory and must be on one mount.
    fn own(&mut self, layers: &Layers) -> Result<[i32; 2]> {
        if layers.userns < 0 {
            return Ok([self.layer(layers.upper, -1)?, self.layer(layers.work, -1)?]);
        }
        let split = |path: &[u8]| path.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
        let (at, work_at) = (split(layers.upper), split(layers.work));
        let mut above = [0u8; 4096];
        above.get_mut(..at).filter(|_| at < 4096).ok_or(ENAMETOOLONG)?.copy_from_slice(&layers.upper[..at]);
        // The mount is attached over the upper directory, because that is not opened by its path.
        let dir = self.mapped(&above[..=at], layers.upper, layers.userns)?;
        let upper = sys::openat(dir, &layers.upper[at..], O_PATH | O_DIRECTORY, 0)?;
        let upper = self.keep(upper)?;
        let work = sys::openat(dir, &layers.work[work_at..], O_PATH | O_DIRECTORY, 0)?;
        Ok([upper, self.keep(work)?])
    }

    /// No mount may stay: a bind of the host's files would show it, with wrong owners.
    fn close(&self) -> Result<()> {
        let mut done = Ok(());
        for (fd, placed) in self.fds.iter().zip(self.placed).take(self.count) {
            if placed {
                done = done.and(sys::umount_detach(by_descriptor(*fd, &mut [0; 40])));
            }
            sys::close(*fd);
        }
        done
    }
}
