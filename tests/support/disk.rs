//! A disk that remembers: every write and every flush that reaches it, in order. So a test can make the disk as a power
//! cut would have left it, at any moment, and mount it again.
//!
//! The disk is the one file of a small FUSE file system that this program serves; a loop device makes it a block
//! device. This disk can do what a real one may do: writes since the last flush are lost, kept, or kept in part, in any
//! choice.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

/// The operations that reached the disk.
#[derive(Clone)]
pub enum Entry {
    Write { offset: usize, data: Arc<[u8]> },
    Flush,
}

/// The disk. It ends with the value.
pub struct Disk {
    dir: PathBuf,
    state: Arc<Mutex<State>>,
    server: Option<std::thread::JoinHandle<()>>,
}

struct State {
    /// The content of the disk except `changed`.
    base: Vec<u8>,
    /// Blocks written since the last [`Disk::restore`].
    changed: HashMap<usize, Box<[u8]>>,
    /// Which generation of the file is the live one: a late write to an earlier one goes nowhere.
    node: u64,
    log: Option<Vec<Entry>>,
}

const BLOCK: usize = 4096;

impl State {
    fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let end = (offset + len).min(self.base.len());
        let mut out = self.base[offset.min(end)..end].to_vec();
        let mut at = offset;
        while at < end {
            let (block, inside) = (at / BLOCK, at % BLOCK);
            let n = (BLOCK - inside).min(end - at);
            if let Some(changed) = self.changed.get(&block) {
                out[at - offset..at - offset + n].copy_from_slice(&changed[inside..inside + n]);
            }
            at += n;
        }
        out
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        if let Some(log) = &mut self.log {
            log.push(Entry::Write { offset, data: data.into() });
        }
        let mut at = 0;
        while at < data.len() {
            let (block, inside) = ((offset + at) / BLOCK, (offset + at) % BLOCK);
            let n = (BLOCK - inside).min(data.len() - at);
            let base = &self.base[block * BLOCK..(block + 1) * BLOCK];
            let changed = self.changed.entry(block).or_insert_with(|| base.into());
            changed[inside..inside + n].copy_from_slice(&data[at..at + n]);
            at += n;
        }
    }
}

impl Disk {
    /// A disk of `size` bytes with an empty ext4; `dir` is a new directory for it.
    pub fn new(dir: &Path, size: usize) -> Disk {
        let fresh = dir.join("fresh");
        std::fs::create_dir_all(dir.join("fuse")).expect("make the disk's directory");
        File::create(&fresh).and_then(|file| file.set_len(size as u64)).expect("make a file");
        run(Command::new("mkfs.ext4").args(["-q", "-E", "nodiscard,lazy_itable_init=0"]).arg(&fresh));
        let base = std::fs::read(&fresh).expect("read the new file system");
        std::fs::remove_file(&fresh).expect("remove it");
        let state = Arc::new(Mutex::new(State { base, changed: HashMap::new(), node: 2, log: None }));
        let device = File::options().read(true).write(true).open("/dev/fuse").expect("open /dev/fuse");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let at = dir.join("fuse");
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("disk"), &at, Some("fuse"), flags, Some(options.as_str())).expect("mount the disk's file");
        let served = state.clone();
        let server = std::thread::spawn(move || serve(device, &served));
        Disk { dir: dir.to_owned(), state, server: Some(server) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the disk")
    }

    /// Remembers from now on; returns what the disk held.
    pub fn record(&self) -> Vec<u8> {
        let mut state = self.state();
        let held = state.read(0, state.base.len());
        state.log = Some(Vec::new());
        held
    }

    /// How much was remembered so far.
    pub fn recorded(&self) -> usize {
        self.state().log.as_ref().map_or(0, Vec::len)
    }

    /// Ends the remembering; returns it.
    pub fn stop(&self) -> Vec<Entry> {
        self.state().log.take().unwrap_or_default()
    }

    /// Makes the disk hold `content` with `volatile` written over it. State of former mounts is lost. Answers the
    /// content that the disk held otherwise, to be given again.
    pub fn restore(&self, content: Vec<u8>, volatile: &[(usize, &[u8])]) -> Vec<u8> {
        let mut state = self.state();
        state.node += 1;
        state.changed.clear();
        let old = std::mem::replace(&mut state.base, content);
        for (offset, data) in volatile {
            state.write(*offset, data);
        }
        old
    }

    /// Takes the content out, leaving nothing. For the next [`Disk::restore`].
    pub fn take(&self) -> Vec<u8> {
        let mut state = self.state();
        state.node += 1;
        state.changed.clear();
        std::mem::take(&mut state.base)
    }

    /// Mounts it, as after a boot; the kernel repairs its journal, nobody else does anything.
    pub fn mount(&self) -> Mounted {
        let file = self.dir.join("fuse/disk");
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().expect("run losetup");
        assert!(output.status.success(), "losetup: {}", String::from_utf8_lossy(&output.stderr));
        let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let at = self.dir.join("mnt");
        std::fs::create_dir_all(&at).expect("make a directory");
        let mounted = Mounted { at, device };
        mount(Some(mounted.device.as_str()), &mounted.at, Some("ext4"), MsFlags::empty(), None::<&str>)
            .unwrap_or_else(|e| panic!("mount the file system: {e}"));
        mounted
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(&self.dir.join("fuse"), MntFlags::MNT_DETACH);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// A mounted disk; it is unmounted with the value.
pub struct Mounted {
    at: PathBuf,
    device: String,
}

impl Mounted {
    pub fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = umount2(&self.at, MntFlags::empty()) {
            eprintln!("{}: {error}", self.at.display());
            let _ = umount2(&self.at, MntFlags::MNT_DETACH);
        }
        run(Command::new("losetup").arg("--detach").arg(&self.device));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Operations of the FUSE protocol.
mod op {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const INTERRUPT: u32 = 36;
    pub const BATCH_FORGET: u32 = 42;
}

const ROOT: u64 = 1;
const HEAD: usize = 40;
/// Read and write requests: what stands before the data.
const IO_HEAD: usize = HEAD + 40;
const MAX_WRITE: usize = 128 << 10;

/// Answers the kernel's requests until the file system is unmounted.
fn serve(mut device: File, state: &Mutex<State>) {
    let mut request = vec![0; MAX_WRITE + BLOCK];
    loop {
        let len = match device.read(&mut request) {
            Ok(len) if len >= HEAD => len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            _ => return,
        };
        let request = &request[..len];
        let operation = word(request, 4);
        if matches!(operation, op::FORGET | op::BATCH_FORGET | op::INTERRUPT) {
            continue;
        }
        let (error, body) = match answer(operation, request, &mut state.lock().expect("the disk")) {
            Ok(body) => (0, body),
            Err(error) => (error as i32, Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend((16 + body.len() as u32).to_ne_bytes());
        reply.extend((-error).to_ne_bytes());
        reply.extend(&request[8..16]);
        reply.extend(body);
        // An answer to a request that was given up is nobody's.
        let _ = device.write(&reply);
    }
}

fn answer(operation: u32, request: &[u8], state: &mut State) -> Result<Vec<u8>, nix::errno::Errno> {
    use nix::errno::Errno;
    let node = long(request, 16);
    let live = |state: &State| if node == state.node { Ok(()) } else { Err(Errno::EIO) };
    match operation {
        op::INIT => {
            let mut out = Vec::new();
            // Version 7.31; no readahead of note; big writes, as many pages as asked.
            for value in [7u32, 31, 128 << 10, 1 << 5 | 1 << 22] {
                out.extend(value.to_ne_bytes());
            }
            out.extend([16u16, 12].map(u16::to_ne_bytes).concat());
            out.extend([MAX_WRITE as u32, 1].map(u32::to_ne_bytes).concat());
            out.extend([(MAX_WRITE / BLOCK) as u16, 0].map(u16::to_ne_bytes).concat());
            out.resize(64, 0);
            Ok(out)
        }
        op::LOOKUP if node == ROOT && request[HEAD..].starts_with(b"disk\0") => {
            let mut out = Vec::new();
            // The node, its generation, and no time for which that may be kept.
            for value in [state.node, 1, 0, 0, 0] {
                out.extend(value.to_ne_bytes());
            }
            out.extend(attributes(state.node, state));
            Ok(out)
        }
        op::LOOKUP => Err(Errno::ENOENT),
        op::GETATTR | op::SETATTR => {
            let mut out = vec![0; 16];
            out.extend(attributes(node, state));
            Ok(out)
        }
        op::OPEN => live(state).map(|()| vec![0; 16]),
        op::READ => {
            live(state)?;
            Ok(state.read(long(request, HEAD + 8) as usize, word(request, HEAD + 16) as usize))
        }
        op::WRITE => {
            live(state)?;
            let (offset, size) = (long(request, HEAD + 8) as usize, word(request, HEAD + 16) as usize);
            state.write(offset, &request[IO_HEAD..IO_HEAD + size]);
            Ok([size as u32, 0].map(u32::to_ne_bytes).concat())
        }
        op::FSYNC => {
            if let Some(log) = state.log.as_mut().filter(|_| node == state.node) {
                log.push(Entry::Flush);
            }
            Ok(Vec::new())
        }
        op::STATFS => Ok(vec![0; 80]),
        op::FLUSH | op::RELEASE => Ok(Vec::new()),
        _ => Err(Errno::ENOSYS),
    }
}

fn attributes(node: u64, state: &State) -> Vec<u8> {
    let (mode, size) = if node == ROOT { (0o40755, 0) } else { (0o100600, state.base.len() as u64) };
    let mut out = Vec::new();
    for value in [node, size, size / 512, 0, 0, 0] {
        out.extend(value.to_ne_bytes());
    }
    // Nanoseconds of three times, mode, links, owner, group, device, block size, flags.
    for value in [0, 0, 0, mode, 1, 0, 0, 0, BLOCK as u32, 0u32] {
        out.extend(value.to_ne_bytes());
    }
    out
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
