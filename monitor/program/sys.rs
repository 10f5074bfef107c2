//! The kernel, without a C library: raw system calls and the few structures they take.
//!
//! Every wrapper answers the kernel's value, or the error number as `Err`. Pointers come from references that live over
//! the call; that is the whole safety argument unless a function says more.

use crate::walls::Wall;
use core::arch::asm;
use core::sync::atomic::AtomicU64;

pub type Result<T> = core::result::Result<T, i32>;

/// One system call with six arguments.
///
/// # Safety
/// The arguments are what the call takes: pointers valid for as long as the kernel uses them.
#[cfg(target_arch = "x86_64")]
unsafe fn syscall(n: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller answers for the arguments; the clobbers are those of the system call ABI.
    unsafe {
        asm!("syscall", inlateout("rax") n as isize => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// One system call with six arguments.
///
/// # Safety
/// The arguments are what the call takes: pointers valid for as long as the kernel uses them.
#[cfg(target_arch = "aarch64")]
unsafe fn syscall(n: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: as above.
    unsafe {
        asm!("svc 0", in("x8") n, inlateout("x0") a[0] as isize => result, in("x1") a[1], in("x2") a[2], in("x3") a[3],
            in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

macro_rules! numbers {
    ($($name:ident $x86:literal $arm:literal;)*) => {
        /// System call numbers, of both programs.
        #[allow(dead_code)]
        pub mod nr {
            $(#[cfg(target_arch = "x86_64")] pub const $name: usize = $x86;
              #[cfg(target_arch = "aarch64")] pub const $name: usize = $arm;)*
        }
    };
}

numbers! {
    READ 0 63; WRITE 1 64; CLOSE 3 57; MMAP 9 222; MUNMAP 11 215; MADVISE 28 233; RT_SIGACTION 13 134; RT_SIGPROCMASK 14 135; IOCTL 16 29;
    NANOSLEEP 35 101; PWRITE64 18 68; PREAD64 17 67; GETPID 39 172; SENDTO 44 206; RECVFROM 45 207; SENDMSG 46 211; RECVMSG 47 212; SOCKET 41 198; BIND 49 200; CONNECT 42 203;
    LISTEN 50 201; SOCKETPAIR 53 199; EXECVE 59 221; EXIT_GROUP 231 94; EXIT 60 93; WAIT4 61 260; KILL 62 129; FCNTL 72 25;
    FTRUNCATE 77 46; FCHDIR 81 50; CHDIR 80 49; UMASK 95 166; SETPRIORITY 141 140; PRCTL 157 167;
    SETGROUPS 116 159; SETRESUID 117 147; SETRESGID 119 149; SETSID 112 157; CAPGET 125 90; CAPSET 126 91; PIVOT_ROOT 155 41; MOUNT 165 40;
    UMOUNT2 166 39; SETHOSTNAME 170 161; SETDOMAINNAME 171 162; CLOCK_GETTIME 228 113; OPENAT 257 56; MKDIRAT 258 34;
    MKNODAT 259 33; FCHOWNAT 260 54; UNLINKAT 263 35; RENAMEAT 264 38; SYMLINKAT 266 36; READLINKAT 267 78; FCHMODAT 268 53; UNSHARE 272 97;
    FSTATFS 138 44; EPOLL_CTL 233 21; EPOLL_PWAIT 281 22; SIGNALFD4 289 74; EPOLL_CREATE1 291 20; DUP3 292 24; PIPE2 293 59;
    ACCEPT4 288 242; PRLIMIT64 302 261; SETNS 308 268; SECCOMP 317 277; BPF 321 280; STATX 332 291;
    OPEN_TREE 428 428; MOVE_MOUNT 429 429; FSOPEN 430 430; FSCONFIG 431 431; FSMOUNT 432 432; CLONE3 435 435;
    CLOSE_RANGE 436 436; OPENAT2 437 437; MOUNT_SETATTR 442 442; PIDFD_SEND_SIGNAL 424 424; KEYCTL 250 219; SCHED_SETAFFINITY 203 122;
    IOPRIO_SET 251 30; GETRANDOM 318 278; PERSONALITY 135 92; SCHED_SETSCHEDULER 144 119;
    EVENTFD2 290 19; SETSOCKOPT 54 208; SHUTDOWN 48 210; CLONE 56 220; RT_SIGTIMEDWAIT 128 137; SETPGID 109 154; SPLICE 275 76;
    LSETXATTR 189 6; FSETXATTR 190 7; FGETXATTR 193 10; FLOCK 73 32;
    CHROOT 161 51; PPOLL 271 73; LANDLOCK_CREATE_RULESET 444 444; LANDLOCK_ADD_RULE 445 445; LANDLOCK_RESTRICT_SELF 446 446;
    MEMFD_CREATE 319 279; EXECVEAT 322 281;
    FUTEX 202 98; GETPPID 110 173; SETFSUID 122 151; SETFSGID 123 152; UNAME 63 160; FALLOCATE 285 47; PIDFD_OPEN 434 434; WAITID 247 95;
}

pub const MS_SLAVE: u32 = 1 << 19;
pub const MS_SHARED: u32 = 1 << 20;

/// One system call; unused arguments are zero.
///
/// # Safety
/// The arguments must be what the call takes: pointers valid for as long as the kernel uses them.
pub unsafe fn call(n: usize, args: &[usize]) -> Result<usize> {
    let mut a = [0usize; 6];
    a[..args.len()].copy_from_slice(args);
    // SAFETY: forwarded to the caller.
    let result = unsafe { syscall(n, a) };
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}

macro_rules! sys {
    ($n:ident $(, $a:expr)* $(,)?) => {{
        // SAFETY: every pointer here comes from a reference that lives over the call, or is null where the call allows
        // it.
        unsafe { call(nr::$n, &[$($a as usize),*]) }
    }};
}

pub const EINTR: i32 = 4;
pub const ENOENT: i32 = 2;
pub const ESRCH: i32 = 3;
pub const EIO: i32 = 5;
pub const E2BIG: i32 = 7;
pub const EAGAIN: i32 = 11;
pub const ENOMEM: i32 = 12;
pub const EINPROGRESS: i32 = 115;
pub const EACCES: i32 = 13;
pub const EBUSY: i32 = 16;
pub const EEXIST: i32 = 17;
pub const ENODEV: i32 = 19;
pub const ENOTDIR: i32 = 20;
pub const EINVAL: i32 = 22;
pub const ENAMETOOLONG: i32 = 36;
pub const ELOOP: i32 = 40;
pub const EPERM: i32 = 1;
pub const ETXTBSY: i32 = 26;
pub const ENOSYS: i32 = 38;
pub const ERANGE: i32 = 34;
pub const EPIPE: i32 = 32;
pub const ECONNRESET: i32 = 104;
pub const ECONNREFUSED: i32 = 111;
pub const ECONNABORTED: i32 = 103;

pub const AT_FDCWD: i32 = -100;
pub const AT_EMPTY_PATH: u32 = 0x1000;
pub const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
pub const AT_RECURSIVE: u32 = 0x8000;
pub const AT_REMOVEDIR: u32 = 0x200;

pub const O_RDONLY: u32 = 0;
pub const O_WRONLY: u32 = 1;
pub const O_RDWR: u32 = 2;
pub const O_CREAT: u32 = 0o100;
pub const O_EXCL: u32 = 0o200;
pub const O_NOCTTY: u32 = 0o400;
pub const O_APPEND: u32 = 0o2000;
pub const O_NONBLOCK: u32 = 0o4000;
#[cfg(target_arch = "x86_64")]
pub const O_DIRECTORY: u32 = 0o200000;
#[cfg(target_arch = "x86_64")]
pub const O_NOFOLLOW: u32 = 0o400000;
#[cfg(target_arch = "aarch64")]
pub const O_DIRECTORY: u32 = 0o40000;
#[cfg(target_arch = "aarch64")]
pub const O_NOFOLLOW: u32 = 0o100000;
pub const O_CLOEXEC: u32 = 0o2000000;
pub const O_PATH: u32 = 0o10000000;

pub const RESOLVE_NO_MAGICLINKS: u64 = 2;
pub const RESOLVE_NO_SYMLINKS: u64 = 4;
pub const RESOLVE_NO_XDEV: u64 = 1;
pub const RESOLVE_BENEATH: u64 = 8;
pub const RESOLVE_IN_ROOT: u64 = 16;

pub const S_IFMT: u32 = 0o170000;
pub const S_IFDIR: u32 = 0o040000;
pub const S_IFREG: u32 = 0o100000;
pub const S_IFSOCK: u32 = 0o140000;
pub const S_IFCHR: u32 = 0o020000;

pub const SIGCHLD: u32 = 17;
pub const SIGPIPE: u32 = 13;
pub const SIGKILL: u32 = 9;

pub const CLONE_NEWNS: u64 = 0x0002_0000;
pub const CLONE_NEWCGROUP: u64 = 0x0200_0000;
pub const CLONE_NEWPID: u64 = 0x2000_0000;
pub const CLONE_NEWUTS: u64 = 0x0400_0000;
pub const CLONE_NEWIPC: u64 = 0x0800_0000;
pub const CLONE_NEWUSER: u64 = 0x1000_0000;
pub const CLONE_NEWNET: u64 = 0x4000_0000;
pub const CLONE_PIDFD: u64 = 0x1000;
pub const CLONE_PARENT: u64 = 0x8000;
pub const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

pub const MNT_DETACH: u32 = 2;
pub const MOUNT_ATTR_RDONLY: u64 = 1;
pub const MOUNT_ATTR_NOSUID: u64 = 2;
pub const MOUNT_ATTR_NODEV: u64 = 4;
pub const MOUNT_ATTR_NOEXEC: u64 = 8;

/// Closes a descriptor; there is nothing to do about an error.
pub fn close(fd: i32) {
    let _ = sys!(CLOSE, fd);
}

/// Ends the process. If a filter of the container forbids both calls, an invalid instruction ends the process by a
/// signal, which no filter can refuse.
pub fn exit(code: i32) -> ! {
    let _ = sys!(EXIT_GROUP, code);
    let _ = sys!(EXIT, code);
    // SAFETY: it touches no memory; the signal has its default action, which nobody changes here.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("ud2", options(noreturn, nomem, nostack))
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("udf #0", options(noreturn, nomem, nostack))
    }
}

pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    sys!(READ, fd, buffer.as_mut_ptr(), buffer.len())
}

pub fn write(fd: i32, data: &[u8]) -> Result<usize> {
    sys!(WRITE, fd, data.as_ptr(), data.len())
}

/// Writes all of `data`, going on after interruptions.
pub fn write_all(fd: i32, mut data: &[u8]) -> Result<()> {
    while !data.is_empty() {
        match write(fd, data) {
            Ok(n) => data = &data[n..],
            Err(EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub fn pwrite(fd: i32, data: &[u8], offset: u64) -> Result<usize> {
    sys!(PWRITE64, fd, data.as_ptr(), data.len(), offset)
}

/// send(2) that never raises SIGPIPE and never blocks.
pub fn send(fd: i32, data: &[u8]) -> Result<usize> {
    const MSG_NOSIGNAL_DONTWAIT: usize = 0x4000 | 0x40;
    sys!(SENDTO, fd, data.as_ptr(), data.len(), MSG_NOSIGNAL_DONTWAIT, 0, 0)
}

/// recv(2) that never blocks.
pub fn receive(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    const MSG_DONTWAIT: usize = 0x40;
    sys!(RECVFROM, fd, buffer.as_mut_ptr(), buffer.len(), MSG_DONTWAIT, 0, 0)
}

/// A C string: ends with a NUL.
pub fn openat(dir: i32, path: &[u8], flags: u32, mode: u32) -> Result<i32> {
    sys!(OPENAT, dir, path.as_ptr(), flags | O_CLOEXEC, mode).map(|fd| fd as i32)
}

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// openat2(2); tried again when a rename raced with the walk.
pub fn openat2(dir: i32, path: &[u8], flags: u32, mode: u32, resolve: u64) -> Result<i32> {
    let links = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    let resolve = match resolve & RESOLVE_NO_SYMLINKS != 0 {
        true if !Wall::FixedTargets.stands() => links,
        false if !Wall::ResolveInRoot.stands() => resolve & !links,
        _ => resolve,
    };
    let how = OpenHow { flags: u64::from(flags | O_CLOEXEC), mode: u64::from(mode), resolve };
    for _ in 0..64 {
        match sys!(OPENAT2, dir, path.as_ptr(), &raw const how, size_of::<OpenHow>()) {
            Ok(fd) => return Ok(fd as i32),
            Err(EAGAIN | EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Err(EAGAIN)
}

pub fn mkdirat(dir: i32, name: &[u8], mode: u32) -> Result<()> {
    sys!(MKDIRAT, dir, name.as_ptr(), mode).map(|_| ())
}

pub fn mknodat(dir: i32, name: &[u8], mode: u32, device: u64) -> Result<()> {
    sys!(MKNODAT, dir, name.as_ptr(), mode, device).map(|_| ())
}

pub fn symlinkat(text: &[u8], dir: i32, name: &[u8]) -> Result<()> {
    sys!(SYMLINKAT, text.as_ptr(), dir, name.as_ptr()).map(|_| ())
}

/// Reads a link into `text`; answers the length. If the text fills all of `text`, the link may be longer.
pub fn readlinkat(dir: i32, name: &[u8], text: &mut [u8]) -> Result<usize> {
    sys!(READLINKAT, dir, name.as_ptr(), text.as_mut_ptr(), text.len())
}

pub fn unlinkat(dir: i32, name: &[u8], flags: u32) -> Result<()> {
    sys!(UNLINKAT, dir, name.as_ptr(), flags).map(|_| ())
}

pub fn renameat(dir: i32, from: &[u8], to: &[u8]) -> Result<()> {
    sys!(RENAMEAT, dir, from.as_ptr(), dir, to.as_ptr()).map(|_| ())
}

pub fn fchownat(dir: i32, name: &[u8], uid: u32, gid: u32, flags: u32) -> Result<()> {
    sys!(FCHOWNAT, dir, name.as_ptr(), uid, gid, flags).map(|_| ())
}

/// Sets the mask of modes for new files.
pub fn umask(mask: u32) {
    let _ = sys!(UMASK, mask);
}

/// chmod of a name, which follows a link: for a test build that shows why it is not used.
#[cfg(feature = "attacks")]
pub fn fchmodat(dir: i32, name: &[u8], mode: u32) -> Result<()> {
    sys!(FCHMODAT, dir, name.as_ptr(), mode).map(|_| ())
}

/// The part of statx(2) that is used here.
#[derive(Clone, Copy, Default)]
pub struct Stat {
    pub mode: u32,
    pub ino: u64,
    pub size: u64,
    /// The file's size on the disk, in pieces of 512 bytes.
    pub blocks: u64,
    pub rdev_major: u32,
    pub rdev_minor: u32,
    /// When its content changed last: nanoseconds since 1970.
    pub changed: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Time {
    seconds: i64,
    nanos: u32,
    pad: u32,
}

#[repr(C)]
struct Statx {
    mask: u32,
    blksize: u32,
    attributes: u64,
    nlink: u32,
    uid: u32,
    gid: u32,
    mode: u16,
    pad: u16,
    ino: u64,
    size: u64,
    blocks: u64,
    attributes_mask: u64,
    /// Of the last access, the birth, the last change of the attributes, and that of the content.
    times: [Time; 4],
    rdev_major: u32,
    rdev_minor: u32,
    device: [u32; 2],
    mount: u64,
    rest: [u64; 14],
}

/// statx of a descriptor (any kind, `O_PATH` too).
pub fn fstat(fd: i32) -> Result<Stat> {
    // SAFETY: Statx holds integers only.
    let mut buffer: Statx = unsafe { core::mem::zeroed() };
    sys!(STATX, fd, c"".as_ptr(), AT_EMPTY_PATH, 0x7ff, &raw mut buffer)?;
    let Statx { mode, ino, size, blocks, rdev_major, rdev_minor, times: [.., content], .. } = buffer;
    let changed = content.seconds * 1_000_000_000 + i64::from(content.nanos);
    Ok(Stat { mode: u32::from(mode), ino, size, blocks, rdev_major, rdev_minor, changed })
}

/// The number of the mount that a descriptor is on, and whether the descriptor is its root.
pub fn mount_of(fd: i32) -> Result<(u64, bool)> {
    const MOUNT: usize = 0x1000;
    const IS_ROOT: u64 = 0x2000;
    // SAFETY: Statx holds integers only.
    let mut buffer: Statx = unsafe { core::mem::zeroed() };
    sys!(STATX, fd, c"".as_ptr(), AT_EMPTY_PATH, MOUNT, &raw mut buffer)?;
    Ok((buffer.mount, buffer.attributes & IS_ROOT != 0))
}

/// Frees the disk space of a part of a file, which reads as zeros from then on.
pub fn punch_hole(fd: i32, from: u64, length: u64) -> Result<()> {
    const KEEP_SIZE: usize = 1;
    const PUNCH_HOLE: usize = 2;
    sys!(FALLOCATE, fd, KEEP_SIZE | PUNCH_HOLE, from, length).map(|_| ())
}

pub fn ftruncate(fd: i32, size: u64) -> Result<()> {
    sys!(FTRUNCATE, fd, size).map(|_| ())
}

/// flock(2), exclusive: waits for it.
pub fn lock_file(fd: i32) -> Result<()> {
    const LOCK_EX: usize = 2;
    while let Err(error) = sys!(FLOCK, fd, LOCK_EX) {
        if error != EINTR {
            return Err(error);
        }
    }
    Ok(())
}

/// As [`lock_file`], but waits for nobody.
pub fn try_lock_file(fd: i32) -> Result<()> {
    const LOCK_EX_NB: usize = 2 | 4;
    sys!(FLOCK, fd, LOCK_EX_NB).map(|_| ())
}

/// A memfd with a program that nothing can change any more.
pub fn sealed_program(content: &[u8]) -> Result<i32> {
    const NAME: &[u8] = b"coracle-shipper\0";
    const CLOEXEC_AND_SEALS: u32 = 1 | 2;
    const EXEC: u32 = 0x10;
    const F_ADD_SEALS: usize = 1033;
    const SEALS: usize = 1 | 2 | 4 | 8;
    // Linux before 6.3 does not know the flag.
    let made = sys!(MEMFD_CREATE, NAME.as_ptr(), CLOEXEC_AND_SEALS | EXEC);
    let fd = made.or_else(|_| sys!(MEMFD_CREATE, NAME.as_ptr(), CLOEXEC_AND_SEALS))? as i32;
    write_all(fd, content)?;
    sys!(FCNTL, fd, F_ADD_SEALS, SEALS)?;
    Ok(fd)
}

/// execveat(2) of a descriptor. Answers on failure alone.
///
/// # Safety
/// Both arrays have addresses of C strings, and end with a zero.
pub unsafe fn execute(program: i32, argv: *const usize, envp: *const usize) -> Result<()> {
    sys!(EXECVEAT, program, c"".as_ptr(), argv, envp, AT_EMPTY_PATH).map(|_| ())
}

/// fsetxattr(2).
pub fn set_attribute(fd: i32, name: &core::ffi::CStr, value: &[u8]) -> Result<()> {
    sys!(FSETXATTR, fd, name.as_ptr(), value.as_ptr(), value.len(), 0).map(|_| ())
}

/// fgetxattr(2): the length of the value.
pub fn get_attribute(fd: i32, name: &core::ffi::CStr, value: &mut [u8]) -> Result<usize> {
    sys!(FGETXATTR, fd, name.as_ptr(), value.as_mut_ptr(), value.len())
}

pub fn fchdir(fd: i32) -> Result<()> {
    sys!(FCHDIR, fd).map(|_| ())
}

/// fcntl(F_SETFL).
pub fn set_flags(fd: i32, flags: u32) -> Result<()> {
    sys!(FCNTL, fd, 4, flags).map(|_| ())
}

/// fcntl(F_GETFL).
pub fn get_flags(fd: i32) -> Result<u32> {
    sys!(FCNTL, fd, 3).map(|flags| flags as u32)
}

pub fn set_nonblocking(fd: i32) {
    if let Ok(flags) = get_flags(fd) {
        let _ = set_flags(fd, flags | O_NONBLOCK);
    }
}

pub fn pipe2(flags: u32) -> Result<[i32; 2]> {
    let mut fds = [0i32; 2];
    sys!(PIPE2, fds.as_mut_ptr(), flags | O_CLOEXEC)?;
    Ok(fds)
}

/// Makes a pipe's buffer at least so large; fails on anything else.
pub fn grow_pipe(fd: i32, size: usize) -> Result<()> {
    const F_SETPIPE_SZ: usize = 1031;
    const F_GETPIPE_SZ: usize = 1032;
    if sys!(FCNTL, fd, F_GETPIPE_SZ)? < size {
        sys!(FCNTL, fd, F_SETPIPE_SZ, size)?;
    }
    Ok(())
}

/// Moves bytes from one pipe to another without a copy, as many as there is room for; never waits.
pub fn splice(from: i32, to: i32, most: usize) -> Result<usize> {
    const MOVE_NONBLOCK: usize = 1 | 2;
    sys!(SPLICE, from, 0usize, to, 0usize, most, MOVE_NONBLOCK)
}

/// How many bytes wait to be read.
pub fn waiting(fd: i32) -> usize {
    const FIONREAD: usize = 0x541b;
    let mut count = 0i32;
    match sys!(IOCTL, fd, FIONREAD, &raw mut count) {
        Ok(_) => count.max(0) as usize,
        Err(_) => 0,
    }
}

/// fcntl(F_DUPFD_CLOEXEC) from `min` up.
pub fn dup_from(fd: i32, min: i32) -> Result<i32> {
    sys!(FCNTL, fd, 1030, min).map(|fd| fd as i32)
}

/// dup3 without close-on-exec: for the descriptors that a program is to have.
pub fn dup_to(from: i32, to: i32) -> Result<()> {
    if from == to {
        return sys!(FCNTL, from, 2, 0).map(|_| ());
    }
    sys!(DUP3, from, to, 0).map(|_| ())
}

pub fn close_range(first: i32, last: u32, flags: u32) -> Result<()> {
    sys!(CLOSE_RANGE, first, last, flags).map(|_| ())
}

/// SOCK_SEQPACKET socket pair.
pub fn socketpair() -> Result<[i32; 2]> {
    const AF_UNIX: usize = 1;
    const SEQPACKET_CLOEXEC: usize = 5 | 0o2000000;
    let mut fds = [0i32; 2];
    sys!(SOCKETPAIR, AF_UNIX, SEQPACKET_CLOEXEC, 0, fds.as_mut_ptr())?;
    Ok(fds)
}

/// As [`socketpair`], for a child's reports: the kernel says with each message to the first end which process sent it.
pub fn report_pair() -> Result<[i32; 2]> {
    const SOL_SOCKET: i32 = 1;
    const SO_PASSCRED: i32 = 16;
    let pair = socketpair()?;
    set_option(pair[0], SOL_SOCKET, SO_PASSCRED, 1);
    Ok(pair)
}

pub const NETLINK_ROUTE: usize = 0;
pub const NETLINK_NETFILTER: usize = 12;

/// A netlink socket in the network namespace of this process.
pub fn netlink(protocol: usize) -> Result<i32> {
    const AF_NETLINK: usize = 16;
    sys!(SOCKET, AF_NETLINK, 3 | 0o2000000, protocol).map(|fd| fd as i32)
}

/// An IPv4 socket that never blocks: TCP or UDP.
pub fn internet(tcp: bool) -> Result<i32> {
    const AF_INET: usize = 2;
    let kind = if tcp { 1 } else { 2 };
    sys!(SOCKET, AF_INET, kind | 0o2000000 | 0o4000, 0).map(|fd| fd as i32)
}

/// As [`internet`], for any address: an IPv6 one, or an IPv4 one in its mapped form.
pub fn internet6(tcp: bool) -> Result<i32> {
    const AF_INET6: usize = 10;
    let kind = if tcp { 1 } else { 2 };
    sys!(SOCKET, AF_INET6, kind | 0o2000000 | 0o4000, 0).map(|fd| fd as i32)
}

/// Begins to connect to a `sockaddr_in` or `sockaddr_in6`; [`EINPROGRESS`] is not a failure.
pub fn connect(fd: i32, to: &[u8]) -> Result<()> {
    match sys!(CONNECT, fd, to.as_ptr(), to.len()) {
        Ok(_) | Err(EINPROGRESS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Binds to a `sockaddr_in`.
pub fn bind(fd: i32, address: &[u8; 16]) -> Result<()> {
    sys!(BIND, fd, address.as_ptr(), address.len()).map(|_| ())
}

pub fn listen(fd: i32, backlog: i32) -> Result<()> {
    sys!(LISTEN, fd, backlog).map(|_| ())
}

/// Sends one datagram to a `sockaddr_in` or `sockaddr_in6`, or nothing.
pub fn send_to(fd: i32, data: &[u8], to: &[u8]) -> Result<usize> {
    sys!(SENDTO, fd, data.as_ptr(), data.len(), 0x4000 | 0x40, to.as_ptr(), to.len())
}

/// Takes one datagram and its sender's `sockaddr_in` or `sockaddr_in6`, if one is there.
pub fn recv_from(fd: i32, data: &mut [u8], from: &mut [u8]) -> Result<usize> {
    let mut length = from.len() as u32;
    sys!(RECVFROM, fd, data.as_mut_ptr(), data.len(), 0x40, from.as_mut_ptr(), &raw mut length)
}

/// One datagram with its sender's `sockaddr_in6` and a control message about where it came to (`in6_pktinfo`); answers
/// both lengths.
pub fn recv_pktinfo(fd: i32, data: &mut [u8], from: &mut [u8; 28], control: &mut PacketInfo) -> Result<(usize, usize)> {
    let mut iov = IoVec { base: data.as_mut_ptr(), length: data.len() };
    let mut message = MsgHdr {
        name: from.as_mut_ptr() as usize,
        name_length: from.len() as u32,
        iov: &raw mut iov,
        iov_length: 1,
        control: control.0.as_mut_ptr(),
        control_length: control.0.len(),
        flags: 0,
    };
    let length = sys!(RECVMSG, fd, &raw mut message, 0x40)?;
    Ok((length, message.control_length.min(control.0.len())))
}

/// One datagram to a `sockaddr_in6`, with such a control message.
pub fn send_pktinfo(fd: i32, data: &[u8], to: &[u8; 28], control: &PacketInfo, control_length: usize) -> Result<usize> {
    let mut iov = IoVec { base: data.as_ptr().cast_mut(), length: data.len() };
    let message = MsgHdr {
        name: to.as_ptr() as usize,
        name_length: to.len() as u32,
        iov: &raw mut iov,
        iov_length: 1,
        control: control.0.as_ptr().cast_mut(),
        control_length,
        flags: 0,
    };
    sys!(SENDMSG, fd, &raw const message, 0x4000 | 0x40)
}

/// Room for one control message with an `in6_pktinfo`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub struct PacketInfo(pub [u8; 40]);

/// Sets a socket option that is a number; one that the kernel does not know changes nothing.
pub fn set_option(fd: i32, level: i32, option: i32, value: i32) {
    let _ = sys!(SETSOCKOPT, fd, level, option, &raw const value, 4);
}

/// Bounds how long a receive of a socket waits: then it fails with EAGAIN.
pub fn limit_receives(fd: i32, seconds: i64) {
    const SOL_SOCKET: usize = 1;
    const SO_RCVTIMEO: usize = 20;
    let limit = [seconds, 0];
    let _ = sys!(SETSOCKOPT, fd, SOL_SOCKET, SO_RCVTIMEO, &raw const limit, size_of_val(&limit));
}

/// Bounds how long a send of a socket waits.
pub fn limit_sends(fd: i32, seconds: i64) {
    const SOL_SOCKET: usize = 1;
    const SO_SNDTIMEO: usize = 21;
    let limit = [seconds, 0];
    let _ = sys!(SETSOCKOPT, fd, SOL_SOCKET, SO_SNDTIMEO, &raw const limit, size_of_val(&limit));
}

/// Waits until one of some descriptors can be read or has ended: which can. A number below 0 stands for none.
pub fn any_of<const N: usize>(fds: [i32; N], seconds: i64) -> Result<[bool; N]> {
    #[repr(C)]
    struct Poll {
        fd: i32,
        events: i16,
        got: i16,
    }
    const POLLIN: i16 = 1;
    let mut polls = fds.map(|fd| Poll { fd, events: POLLIN, got: 0 });
    let limit = Timespec { seconds, nanos: 0 };
    match sys!(PPOLL, polls.as_mut_ptr(), polls.len(), &raw const limit, 0, 8)? {
        0 => Err(EAGAIN),
        _ => Ok(polls.map(|poll| poll.got != 0)),
    }
}

/// The seconds to a time of [`monotonic`], begun ones too; 0 if it is past.
pub fn seconds_until(time: i64) -> i64 {
    (time - monotonic()).max(0).saturating_add(999_999_999) / 1_000_000_000
}

/// Ends the writing side of a connection.
pub fn shut_write(fd: i32) {
    let _ = sys!(SHUTDOWN, fd, 1);
}

/// Random bytes.
pub fn random(bytes: &mut [u8]) {
    const NONBLOCK: usize = 1;
    if sys!(GETRANDOM, bytes.as_mut_ptr(), bytes.len(), NONBLOCK).is_err() {
        // If the kernel gives none, they are made from the clock.
        let mut state = monotonic() as u64;
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
    }
}

/// Whether another open file description holds a byte of the file locked for writing.
pub fn byte_is_locked(fd: i32, at: u64) -> bool {
    #[repr(C)]
    struct Lock {
        kind: i16,
        whence: i16,
        start: i64,
        length: i64,
        pid: i32,
    }
    const F_OFD_GETLK: usize = 36;
    const F_WRLCK: i16 = 1;
    const F_UNLCK: i16 = 2;
    let mut lock = Lock { kind: F_WRLCK, whence: 0, start: at as i64, length: 1, pid: 0 };
    sys!(FCNTL, fd, F_OFD_GETLK, &raw mut lock).is_ok() && lock.kind != F_UNLCK
}

/// A listening SOCK_SEQPACKET socket at `name` in the working directory.
pub fn listen_at(name: &[u8]) -> Result<i32> {
    const AF_UNIX: u16 = 1;
    let fd = sys!(SOCKET, AF_UNIX, 5 | 0o2000000 | 0o4000, 0)? as i32;
    let mut address = [0u8; 110];
    address[..2].copy_from_slice(&AF_UNIX.to_ne_bytes());
    address[2..2 + name.len()].copy_from_slice(name);
    sys!(BIND, fd, address.as_ptr(), 2 + name.len())?;
    sys!(LISTEN, fd, 128)?;
    Ok(fd)
}

pub fn accept(fd: i32) -> Result<i32> {
    sys!(ACCEPT4, fd, 0, 0, 0o2000000 | 0o4000).map(|fd| fd as i32)
}

#[repr(C)]
struct IoVec {
    base: *mut u8,
    length: usize,
}

#[repr(C)]
struct MsgHdr {
    name: usize,
    name_length: u32,
    iov: *mut IoVec,
    iov_length: usize,
    control: *mut u8,
    control_length: usize,
    flags: i32,
}

/// Room for 16 descriptors, and for their sender.
const CONTROL_LEN: usize = 16 + 4 * 16 + 32;

#[repr(C, align(8))]
struct Control([u8; CONTROL_LEN]);

/// Receives one message and the descriptors that came with it. Descriptors beyond the array are closed by the kernel.
pub fn recv_fds(fd: i32, data: &mut [u8], fds: &mut [i32; 16], wait: bool) -> Result<(usize, usize)> {
    recv_from_child(fd, data, fds, wait).map(|(got, count, _)| (got, count))
}

/// As [`recv_fds`], of a [`report_pair`]: the last number is the process that sent the message, 0 where the kernel does
/// not say.
pub fn recv_from_child(fd: i32, data: &mut [u8], fds: &mut [i32; 16], wait: bool) -> Result<(usize, usize, i32)> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    const MSG_DONTWAIT: usize = 0x40;
    const SCM_RIGHTS: i32 = 1;
    const SCM_CREDENTIALS: i32 = 2;
    const HEAD: usize = 16;
    let mut iov = IoVec { base: data.as_mut_ptr(), length: data.len() };
    let mut control = Control([0; CONTROL_LEN]);
    let mut message = MsgHdr {
        name: 0,
        name_length: 0,
        iov: &raw mut iov,
        iov_length: 1,
        control: control.0.as_mut_ptr(),
        control_length: CONTROL_LEN,
        flags: 0,
    };
    let flags = MSG_CMSG_CLOEXEC | if wait { 0 } else { MSG_DONTWAIT };
    let got = loop {
        match sys!(RECVMSG, fd, &raw mut message, flags) {
            Err(EINTR) => {}
            other => break other?,
        }
    };
    let (mut count, mut sender) = (0, 0);
    let mut rest = control.0.get(..message.control_length.min(CONTROL_LEN)).unwrap_or(&[]);
    while rest.len() >= HEAD {
        let length = usize::from_ne_bytes(*rest.first_chunk::<8>().unwrap_or(&[0; 8]));
        let kind = rest[12..HEAD].first_chunk::<4>().map_or(0, |kind| i32::from_ne_bytes(*kind));
        let numbers = rest.get(HEAD..length.min(rest.len())).unwrap_or(&[]).chunks_exact(4);
        for (index, bytes) in numbers.enumerate() {
            let number = i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            match kind {
                SCM_RIGHTS if count < fds.len() => {
                    fds[count] = number;
                    count += 1;
                }
                SCM_RIGHTS => close(number),
                SCM_CREDENTIALS if index == 0 => sender = number,
                _ => {}
            }
        }
        rest = rest.get(length.max(HEAD).next_multiple_of(8)..).unwrap_or(&[]);
    }
    Ok((got, count, sender))
}

/// Sends one message with at most one descriptor.
pub fn send_fd(fd: i32, data: &[u8], pass: Option<i32>) -> Result<usize> {
    send_fds(fd, data, pass.as_slice())
}

/// Sends one message with at most 16 descriptors.
pub fn send_fds(fd: i32, data: &[u8], pass: &[i32]) -> Result<usize> {
    let mut iov = IoVec { base: data.as_ptr().cast_mut(), length: data.len() };
    let mut control = Control([0; CONTROL_LEN]);
    let length = 16 + 4 * pass.len();
    control.0[..8].copy_from_slice(&length.to_ne_bytes());
    control.0[8..12].copy_from_slice(&1i32.to_ne_bytes());
    control.0[12..16].copy_from_slice(&1i32.to_ne_bytes());
    let places = control.0.get_mut(16..length).ok_or(E2BIG)?;
    for (place, fd) in places.chunks_exact_mut(4).zip(pass) {
        place.copy_from_slice(&fd.to_ne_bytes());
    }
    let message = MsgHdr {
        name: 0,
        name_length: 0,
        iov: &raw mut iov,
        iov_length: 1,
        control: control.0.as_mut_ptr(),
        control_length: if pass.is_empty() { 0 } else { length.next_multiple_of(8) },
        flags: 0,
    };
    sys!(SENDMSG, fd, &raw const message, 0x4000)
}

/// Fails unless all of the mapping is there.
pub fn map_file(fd: i32, length: usize) -> Result<&'static [u8]> {
    const PROT_READ: usize = 1;
    const MAP_PRIVATE: usize = 2;
    let at = sys!(MMAP, 0, length, PROT_READ, MAP_PRIVATE, fd, 0)?;
    // SAFETY: the kernel mapped `length` readable bytes; the file is a sealed memfd, or one that the library never changes, so they neither change
    // nor go.
    Ok(unsafe { core::slice::from_raw_parts(at as *const u8, length) })
}

pub fn unmap(memory: &'static [u8]) {
    let _ = sys!(MUNMAP, memory.as_ptr(), memory.len());
}

/// Gives back the memory of the stack that earlier calls used, below the part that is in use now.
#[inline(never)]
pub fn drop_stack() {
    const DONTNEED: usize = 4;
    // Where pages are larger this does nothing.
    const PAGE: usize = 4 << 10;
    // `IN_USE`: the room that this call and the next one use. `ROOM`: the depth of other calls, at most. The kernel
    // keeps the room below a stack free.
    const IN_USE: usize = 8 << 10;
    const ROOM: usize = 512 << 10;
    let here = 0u8;
    let end = (&raw const here as usize).wrapping_sub(IN_USE) & !(PAGE - 1);
    // An error says that a part is not mapped; the mapped part was given back.
    let _ = sys!(MADVISE, end.wrapping_sub(ROOM), ROOM, DONTNEED);
}

/// Plain data of which every bit pattern is a value.
///
/// # Safety
/// That holds for the type, it needs no alignment beyond a page's, and nothing is to be dropped.
pub unsafe trait Plain: Copy {}

// SAFETY: a number.
unsafe impl Plain for u32 {}

/// Fresh zeroed memory for so many values.
pub fn map_slice<T: Plain>(count: usize) -> Result<&'static mut [T]> {
    let memory = map_memory(count.checked_mul(size_of::<T>()).ok_or(ENOMEM)?)?;
    // SAFETY: a mapping begins at a page, is as long as asked for, this is the only reference to it, and zeroes are a
    // value.
    Ok(unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), count) })
}

/// Unmaps what [`map_slice`] gave.
pub fn unmap_slice<T: Plain>(slice: &'static mut [T]) {
    let _ = sys!(MUNMAP, slice.as_ptr(), size_of_val(slice));
}

/// Zeroed numbers that processes forked from this one share with it.
pub fn map_shared() -> Result<&'static [AtomicU64; 2]> {
    const PAGE: usize = 4 << 10;
    let at = sys!(MMAP, 0, PAGE, 3, 0x21, -1isize, 0)?;
    // SAFETY: a page of shared anonymous memory that is never unmapped; atomics may change under a shared reference.
    Ok(unsafe { &*(at as *const [AtomicU64; 2]) })
}

/// Fresh zeroed memory.
pub fn map_memory(length: usize) -> Result<&'static mut [u8]> {
    let at = sys!(MMAP, 0, length, 3, 0x22, -1isize, 0)?;
    // SAFETY: a private anonymous mapping of `length` bytes, ours alone.
    Ok(unsafe { core::slice::from_raw_parts_mut(at as *mut u8, length) })
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanos: i64,
}

fn clock(id: usize) -> i64 {
    let mut now = Timespec { seconds: 0, nanos: 0 };
    let _ = sys!(CLOCK_GETTIME, id, &raw mut now);
    now.seconds * 1_000_000_000 + now.nanos
}

/// Waits for some time; a signal may end the wait early.
pub fn sleep(nanos: i64) {
    let time = Timespec { seconds: nanos / 1_000_000_000, nanos: nanos % 1_000_000_000 };
    let _ = sys!(NANOSLEEP, &raw const time, 0);
}

/// Nanoseconds since 1970.
pub fn now() -> i64 {
    clock(0)
}

/// Nanoseconds of a clock that never jumps.
pub fn monotonic() -> i64 {
    clock(1)
}

#[cfg(target_arch = "x86_64")]
#[repr(C, packed)]
#[derive(Clone, Copy, Default)]
pub struct EpollEvent {
    pub events: u32,
    pub data: u64,
}
#[cfg(not(target_arch = "x86_64"))]
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct EpollEvent {
    pub events: u32,
    pub data: u64,
}

pub const EPOLLIN: u32 = 1;
pub const EPOLLPRI: u32 = 2;
pub const EPOLLOUT: u32 = 4;
pub const EPOLLERR: u32 = 8;
pub const EPOLLHUP: u32 = 16;
/// The other side writes no more.
pub const EPOLLRDHUP: u32 = 0x2000;
/// Reported once for each change.
pub const EPOLLET: u32 = 1 << 31;

pub fn epoll_create() -> Result<i32> {
    sys!(EPOLL_CREATE1, O_CLOEXEC).map(|fd| fd as i32)
}

pub const ADD: usize = 1;
pub const REMOVE: usize = 2;
pub const CHANGE: usize = 3;

/// A new eventfd that does not block.
pub fn eventfd() -> Result<i32> {
    sys!(EVENTFD2, 0, O_CLOEXEC | O_NONBLOCK).map(|fd| fd as i32)
}

/// Waits while the lower half of a number that processes share is this one. Also a signal ends the wait.
pub fn wait_while(number: &AtomicU64, value: u64) {
    const FUTEX_WAIT: usize = 0;
    const { assert!(cfg!(target_endian = "little")) };
    let _ = sys!(FUTEX, number.as_ptr(), FUTEX_WAIT, value as u32, 0);
}

/// Wakes a process that waits at the number. Never blocks.
pub fn wake_one(number: &AtomicU64) {
    const FUTEX_WAKE: usize = 1;
    let _ = sys!(FUTEX, number.as_ptr(), FUTEX_WAKE, 1);
}

pub fn epoll_ctl(epoll: i32, operation: usize, fd: i32, events: u32, data: u64) -> Result<()> {
    let event = EpollEvent { events, data };
    sys!(EPOLL_CTL, epoll, operation, fd, &raw const event).map(|_| ())
}

pub fn epoll_wait(epoll: i32, events: &mut [EpollEvent], millis: i32) -> Result<usize> {
    sys!(EPOLL_PWAIT, epoll, events.as_mut_ptr(), events.len(), millis as isize, 0, 8)
}

/// Blocks (`true`) or unblocks every signal.
pub fn block_signals(block: bool) {
    let set: u64 = if block { !0 } else { 0 };
    let _ = sys!(RT_SIGPROCMASK, 2, &raw const set, 0, 8);
}

#[repr(C)]
struct SigAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// SIG_DFL (0) or SIG_IGN (1).
pub fn set_signal(signal: u32, disposition: usize) {
    let action = SigAction { handler: disposition, flags: 0, restorer: 0, mask: 0 };
    let _ = sys!(RT_SIGACTION, signal, &raw const action, 0, 8);
}

/// A descriptor that is readable when a child ended.
pub fn child_signals() -> Result<i32> {
    let set: u64 = 1 << (SIGCHLD - 1);
    sys!(SIGNALFD4, -1isize, &raw const set, 8, O_CLOEXEC | O_NONBLOCK).map(|fd| fd as i32)
}

/// Reaps one ended child: (pid, wait status).
pub fn reap() -> Option<(i32, i32)> {
    let mut status = 0i32;
    match sys!(WAIT4, -1isize, &raw mut status, 1 | 0x4000_0000, 0) {
        Ok(pid) if pid > 0 => Some((pid as i32, status)),
        _ => None,
    }
}

/// Whether a process is a child that was not reaped.
pub fn is_child(pid: i32) -> bool {
    const P_PID: usize = 1;
    const WNOHANG_EXITED_NOWAIT: usize = 1 | 4 | 0x0100_0000;
    sys!(WAITID, P_PID, pid, 0, WNOHANG_EXITED_NOWAIT, 0).is_ok()
}

/// The calling process.
pub fn own_pid() -> i32 {
    sys!(GETPID).unwrap_or(0) as i32
}

/// The process whose child this one is.
fn parent_pid() -> i32 {
    sys!(GETPPID).unwrap_or(0) as i32
}

/// This process ends with its parent, which is `parent`. An error: the parent has ended before.
pub fn die_with_parent(parent: i32) -> Result<()> {
    const PR_SET_PDEATHSIG: usize = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL as usize)?;
    if parent_pid() == parent { Ok(()) } else { Err(ESRCH) }
}

/// Waits for one child, at most about so long: its wait status, if it ended. A child that waits for a disk does not
/// end, also when it is killed.
pub fn wait_for_at_most(pid: i32, pidfd: i32, seconds: i64) -> Option<i32> {
    let until = monotonic() + seconds * 1_000_000_000;
    while any_of([pidfd], seconds).is_err() {
        if monotonic() >= until {
            return None;
        }
    }
    Some(wait_for(pid))
}

/// Waits for one child.
pub fn wait_for(pid: i32) -> i32 {
    let mut status = 0i32;
    while let Err(EINTR) = sys!(WAIT4, pid as isize, &raw mut status, 0x4000_0000, 0) {}
    status
}

#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// fork by clone3: 0 in the child; in the parent the pid and, where asked for, a pidfd.
pub fn fork(flags: u64, cgroup: Option<i32>) -> Result<(i32, i32)> {
    let mut pidfd = -1i32;
    let mut args = CloneArgs { flags: flags | CLONE_PIDFD, exit_signal: u64::from(SIGCHLD), ..CloneArgs::default() };
    args.pidfd = (&raw mut pidfd) as u64;
    if let Some(cgroup) = cgroup {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = cgroup as u64;
    }
    let pid = sys!(CLONE3, &raw mut args, size_of::<CloneArgs>())?;
    Ok((pid as i32, pidfd))
}

/// The flag of clone(2) for a sibling: a process whose parent is the caller's.
pub const SIBLING: u64 = CLONE_PARENT | SIGCHLD as u64;

/// fork by the oldest call, which filters of system calls know. The child's parent is the caller's parent. Answers 0 in
/// the child, else the child's pid.
pub fn fork_sibling() -> Result<i32> {
    sys!(CLONE, SIBLING, 0usize, 0usize, 0usize, 0usize).map(|pid| pid as i32)
}

/// A descriptor of a child that was not reaped.
pub fn pidfd_of(pid: i32) -> Result<i32> {
    sys!(PIDFD_OPEN, pid, 0).map(|fd| fd as i32)
}

/// The mount namespace of the process, where the kernel gives it.
pub fn mounts_of(pidfd: i32) -> i32 {
    const PIDFD_GET_MNT_NAMESPACE: usize = 0xff03;
    ioctl(pidfd, PIDFD_GET_MNT_NAMESPACE, 0).map_or(-1, |fd| fd as i32)
}

pub fn pidfd_signal(pidfd: i32, signal: u32) -> Result<()> {
    sys!(PIDFD_SEND_SIGNAL, pidfd, signal, 0, 0).map(|_| ())
}

/// Unmaps a range of addresses, of which parts may be unmapped already.
///
/// # Safety
/// Nothing refers to the range any more.
pub unsafe fn unmap_range(from: usize, to: usize) {
    if from < to {
        let _ = sys!(MUNMAP, from, to - from);
    }
}

/// Makes the pages of a range read as zeroes.
///
/// # Safety
/// The range is page-aligned private memory of no file, and zeroes are a value of its contents.
pub unsafe fn zero_range(from: usize, to: usize) {
    const DONTNEED: usize = 4;
    if from < to {
        let _ = sys!(MADVISE, from, to - from, DONTNEED);
    }
}

/// Kills a process with its group, where it leads one.
pub fn kill_group(pid: i32) {
    let _ = sys!(KILL, -(pid as isize), SIGKILL);
    let _ = sys!(KILL, pid, SIGKILL);
}

/// Kills a child and waits for it, as [`wait_for_at_most`].
pub fn kill_and_wait(pid: i32, pidfd: i32, seconds: i64) -> Option<i32> {
    kill_group(pid);
    wait_for_at_most(pid, pidfd, seconds)
}

/// Reads a file's beginning, as one of /proc.
pub fn read_file(path: &[u8], buffer: &mut [u8]) -> Result<usize> {
    let file = openat(AT_FDCWD, path, O_RDONLY, 0)?;
    let got = read(file, buffer);
    close(file);
    got
}

/// Writes a text into a file that is there, as one of /proc or of a control group.
pub fn write_file(path: &[u8], text: &[u8]) -> Result<()> {
    let file = openat(AT_FDCWD, path, O_WRONLY, 0)?;
    let written = write_all(file, text);
    close(file);
    written
}

pub fn pread(fd: i32, buffer: &mut [u8], offset: u64) -> Result<usize> {
    sys!(PREAD64, fd, buffer.as_mut_ptr(), buffer.len(), offset)
}

pub fn prctl(option: usize, argument: usize) -> Result<usize> {
    sys!(PRCTL, option, argument, 0, 0, 0)
}

pub fn ioctl(fd: i32, request: usize, argument: usize) -> Result<usize> {
    sys!(IOCTL, fd, request, argument)
}

/// Sets a terminal's size.
pub fn set_window(fd: i32, rows: u16, cols: u16) -> Result<()> {
    let size = [rows, cols, 0, 0];
    sys!(IOCTL, fd, 0x5414, size.as_ptr()).map(|_| ())
}

pub fn setns(fd: i32, kinds: u64) -> Result<()> {
    sys!(SETNS, fd, kinds).map(|_| ())
}

pub fn unshare(kinds: u64) -> Result<()> {
    sys!(UNSHARE, kinds).map(|_| ())
}

/// mount(2) used for propagation alone.
pub fn mount_propagation(path: &[u8], flags: u32) -> Result<()> {
    sys!(MOUNT, 0, path.as_ptr(), 0, flags, 0).map(|_| ())
}

/// mount(2) used for the flags of one attached mount.
pub fn remount(path: &[u8], flags: u64) -> Result<()> {
    sys!(MOUNT, 0, path.as_ptr(), 0, flags, 0).map(|_| ())
}

/// mount(2) of a new file system on `target`.
pub fn mount(source: &[u8], target: &[u8], kind: &[u8], flags: u32, options: &[u8]) -> Result<()> {
    sys!(MOUNT, source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr()).map(|_| ())
}

/// Sets an attribute of a file; a link is not followed.
pub fn lsetxattr(path: &[u8], name: &core::ffi::CStr, value: &[u8]) -> Result<()> {
    sys!(LSETXATTR, path.as_ptr(), name.as_ptr(), value.as_ptr(), value.len(), 0).map(|_| ())
}

pub fn umount_detach(path: &[u8]) -> Result<()> {
    sys!(UMOUNT2, path.as_ptr(), MNT_DETACH).map(|_| ())
}

pub fn pivot_root(new: &[u8], old: &[u8]) -> Result<()> {
    sys!(PIVOT_ROOT, new.as_ptr(), old.as_ptr()).map(|_| ())
}

/// A resource limit of this process: soft and hard.
pub fn get_limit(resource: u32) -> Result<[u64; 2]> {
    let mut limits = [0u64; 2];
    sys!(PRLIMIT64, 0, resource, 0, limits.as_mut_ptr()).map(|_| limits)
}

pub fn set_limit(resource: u32, limits: [u64; 2]) -> Result<()> {
    sys!(PRLIMIT64, 0, resource, limits.as_ptr(), 0).map(|_| ())
}

/// The kernel's release by its first two numbers.
pub fn release() -> (u32, u32) {
    // Six texts of 65 bytes; the third is the release.
    let mut names = [0u8; 6 * 65];
    if sys!(UNAME, names.as_mut_ptr()).is_err() {
        return (0, 0);
    }
    let mut numbers = names[2 * 65..3 * 65].split(|byte| !byte.is_ascii_digit());
    let mut next =
        || numbers.next().unwrap_or(b"").iter().fold(0u32, |sum, digit| sum.wrapping_mul(10) + u32::from(digit - b'0'));
    (next(), next())
}

pub fn fsopen(kind: &[u8]) -> Result<i32> {
    sys!(FSOPEN, kind.as_ptr(), 1).map(|fd| fd as i32)
}

/// FSCONFIG_SET_FLAG, or FSCONFIG_SET_STRING when `value` is not empty.
pub fn fsconfig(fs: i32, key: &[u8], value: &[u8]) -> Result<()> {
    if value == b"\0" {
        return sys!(FSCONFIG, fs, 0, key.as_ptr(), 0, 0).map(|_| ());
    }
    sys!(FSCONFIG, fs, 1, key.as_ptr(), value.as_ptr(), 0).map(|_| ())
}

/// FSCONFIG_CMD_CREATE.
pub fn fs_create(fs: i32) -> Result<()> {
    sys!(FSCONFIG, fs, 6, 0, 0, 0).map(|_| ())
}

pub fn fsmount(fs: i32, attributes: u32) -> Result<i32> {
    sys!(FSMOUNT, fs, 1, attributes).map(|fd| fd as i32)
}

pub fn open_tree(dir: i32, path: &[u8], flags: u32) -> Result<i32> {
    sys!(OPEN_TREE, dir, path.as_ptr(), flags | O_CLOEXEC).map(|fd| fd as i32)
}

/// Moves a detached mount onto the entry `name` of a directory.
pub fn move_mount_at(mount: i32, dir: i32, name: &[u8]) -> Result<()> {
    const F_EMPTY: usize = 0x4;
    sys!(MOVE_MOUNT, mount, c"".as_ptr(), dir, name.as_ptr(), F_EMPTY).map(|_| ())
}

/// Moves a detached mount onto what `target` is open at.
pub fn move_mount(mount: i32, target: i32) -> Result<()> {
    const F_EMPTY_T_EMPTY: usize = 0x4 | 0x40;
    sys!(MOVE_MOUNT, mount, c"".as_ptr(), target, c"".as_ptr(), F_EMPTY_T_EMPTY).map(|_| ())
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

pub fn mount_setattr(mount: i32, recursive: bool, set: u64, clear: u64, propagation: u64) -> Result<()> {
    let attr = MountAttr { set, clear, propagation, userns: 0 };
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    sys!(MOUNT_SETATTR, mount, c"".as_ptr(), flags, &raw const attr, size_of::<MountAttr>()).map(|_| ())
}

/// Shows a detached mount with the owners of a user namespace.
pub fn mount_idmap(mount: i32, recursive: bool, userns: i32) -> Result<()> {
    const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;
    let attr = MountAttr { set: MOUNT_ATTR_IDMAP, clear: 0, propagation: 0, userns: userns as u64 };
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    sys!(MOUNT_SETATTR, mount, c"".as_ptr(), flags, &raw const attr, size_of::<MountAttr>()).map(|_| ())
}

/// Becomes the root of a user namespace inside of it: all three ids of each kind, and no other groups.
pub fn become_root() -> Result<()> {
    sys!(SETGROUPS, 0, 0)?;
    sys!(SETRESGID, 0, 0, 0)?;
    sys!(SETRESUID, 0, 0, 0).map(|_| ())
}

/// The owner of new files; the capabilities stay.
pub fn set_fs_owner(uid: u32, gid: u32) -> Result<()> {
    const PR_SET_SECUREBITS: usize = 28;
    const NO_SETUID_FIXUP: usize = 4;
    prctl(PR_SET_SECUREBITS, NO_SETUID_FIXUP)?;
    // Both calls answer the old owner, also after a failure.
    let _ = sys!(SETFSGID, gid);
    let _ = sys!(SETFSUID, uid);
    Ok(())
}

/// The file system's magic number behind a descriptor.
pub fn fs_magic(fd: i32) -> Result<u64> {
    fs_facts(fd).map(|facts| facts[0])
}

/// The flags of a descriptor's mount and file system: `ST_*`.
pub fn fs_flags(fd: i32) -> Result<u64> {
    fs_facts(fd).map(|facts| facts[10])
}

fn fs_facts(fd: i32) -> Result<[u64; 32]> {
    let mut facts = [0u64; 32];
    sys!(FSTATFS, fd, facts.as_mut_ptr()).map(|_| facts)
}
