//! The overlay that becomes a container's root.

use crate::sys::{self, *};
use crate::text::Writer;
use crate::wire::Payload;

/// Mounts the overlay of an [`OP_OVERLAY`](crate::wire::OP_OVERLAY), detached; answers its descriptor.
pub fn mount(mut p: Payload) -> Result<i32> {
    let (upper, work) = (p.cstr(), p.cstr());
    let volatile = p.u32() & 1 != 0;
    let count = p.u32();
    match by_steps(upper, work, volatile, p, count) {
        Err(EINVAL) => by_one_string(upper, work, volatile, p, count),
        other => other,
    }
}

/// One directory a step, as Linux 6.7 and newer take them: paths of any form.
fn by_steps(upper: &[u8], work: &[u8], volatile: bool, mut lower: Payload, count: u32) -> Result<i32> {
    let fs = sys::fsopen(b"overlay\0")?;
    let mut made = || {
        for _ in 0..count {
            sys::fsconfig(fs, b"lowerdir+\0", lower.cstr())?;
        }
        sys::fsconfig(fs, b"upperdir\0", upper)?;
        sys::fsconfig(fs, b"workdir\0", work)?;
        if volatile {
            sys::fsconfig(fs, b"volatile\0", b"\0")?;
        }
        sys::fs_create(fs)?;
        sys::fsmount(fs, 0)
    };
    let mount = made();
    sys::close(fs);
    mount
}

/// Older kernels take one string of a page for all, with colons and commas in it: the directories are named by their
/// descriptors, so that they are short and have neither.
fn by_one_string(upper: &[u8], work: &[u8], volatile: bool, mut lower: Payload, count: u32) -> Result<i32> {
    let mut buffer = [0u8; 4096];
    let mut text = Writer::new(&mut buffer);
    let mut open = Open { fds: [-1; 160], count: 0 };
    open.name(&mut text, b"upperdir=", upper)?;
    open.name(&mut text, b",workdir=", work)?;
    for index in 0..count {
        open.name(&mut text, if index == 0 { b",lowerdir=" } else { b":" }, lower.cstr())?;
    }
    text.bytes(if volatile { b",volatile\0" } else { b"\0" });
    if text.full {
        return Err(E2BIG);
    }
    let options = text.done();
    // mount(2) wants a place, which is to be no other's: /proc of this mount namespace serves for a moment, and a clone of
    // the mount goes on.
    let mounted = sys::mount(b"overlay\0", b"/proc\0", 0, options);
    open.close();
    mounted?;
    let mount = sys::open_tree(AT_FDCWD, b"/proc\0", 1);
    sys::umount_detach(b"/proc\0")?;
    mount
}

/// Directories that are open while the kernel looks them up.
struct Open {
    fds: [i32; 160],
    count: usize,
}

impl Open {
    /// Opens a directory and names it by its descriptor.
    fn name(&mut self, text: &mut Writer, before: &[u8], path: &[u8]) -> Result<()> {
        let slot = self.fds.get_mut(self.count).ok_or(E2BIG)?;
        *slot = sys::openat(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0)?;
        text.bytes(before).bytes(b"/proc/self/fd/").number(i64::from(*slot));
        self.count += 1;
        Ok(())
    }

    fn close(&self) {
        self.fds[..self.count].iter().for_each(|fd| sys::close(*fd));
    }
}
