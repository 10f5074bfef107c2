//! The types of the boundary: opaque handles, sized structs, callback types, codes.

use libc::{c_char, c_void};

/// An opened engine root.
pub struct coracle(());
/// The reason for a failure. The caller owns it, and frees it with coracle_error_free.
pub struct coracle_error(());
/// Cancels, bounds and watches calls that may block.
pub struct coracle_op(());
/// An attached process: its standard streams, its end, its terminal.
pub struct coracle_session(());
/// Bytes or records that come out of the engine.
pub struct coracle_stream(());
/// Events of a root.
pub struct coracle_events(());
/// A server of the HTTP API.
pub struct coracle_http_server(());

/// 0 is success, below 0 an error (CORACLE_E...), above 0 success with a remark (CORACLE_DONE, ...).
pub type coracle_status = i32;

/// Success.
pub const CORACLE_OK: coracle_status = 0;
/// Success: the stream or the events have ended, and nothing was given.
pub const CORACLE_DONE: coracle_status = 1;
/// Success: there is nothing yet: the timeout passed, or the call was begun (CORACLE_OP_NONBLOCK).
pub const CORACLE_AGAIN: coracle_status = 2;
/// Success: the object was in that state before the call (HTTP 304).
pub const CORACLE_UNCHANGED: coracle_status = 3;
/// A parameter or document is wrong (HTTP 400).
pub const CORACLE_EINVALID: coracle_status = -7001;
/// Credentials are missing or refused (HTTP 401).
pub const CORACLE_EUNAUTHORIZED: coracle_status = -7002;
/// The operation is not permitted on this object (HTTP 403).
pub const CORACLE_EFORBIDDEN: coracle_status = -7003;
/// No such container, image, exec instance or file (HTTP 404).
pub const CORACLE_ENOT_FOUND: coracle_status = -7004;
/// The object's state, or another object, is in the way (HTTP 409).
pub const CORACLE_ECONFLICT: coracle_status = -7005;
/// The engine failed (HTTP 500).
pub const CORACLE_EINTERNAL: coracle_status = -7006;
/// The feature is not built in, or this kernel does not support it (HTTP 501).
pub const CORACLE_EUNSUPPORTED: coracle_status = -7007;
/// Something needed is not there now (HTTP 503).
pub const CORACLE_EUNAVAILABLE: coracle_status = -7008;
/// The operating system refused; coracle_error_errno has its error number.
pub const CORACLE_EIO: coracle_status = -7009;
/// Memory ran out.
pub const CORACLE_ENOMEM: coracle_status = -7010;
/// The operation's deadline passed.
pub const CORACLE_ETIMEOUT: coracle_status = -7011;
/// The operation was cancelled.
pub const CORACLE_ECANCELLED: coracle_status = -7012;
/// A callback refused to go on; coracle_error_detail has its number.
pub const CORACLE_ECALLBACK: coracle_status = -7013;
/// This process is a fork of the one that made the handle.
pub const CORACLE_EFORKED: coracle_status = -7014;
/// The library has a defect, which was caught; from then on the engine's handle only reads.
pub const CORACLE_EPANIC: coracle_status = -7015;
/// A handle is closed, of another type, or in use where it must not be.
pub const CORACLE_EMISUSE: coracle_status = -7016;
/// Stored data is damaged.
pub const CORACLE_ECORRUPT: coracle_status = -7017;
/// The engine is not in a state to answer (HTTP 406).
pub const CORACLE_ENOT_ACCEPTABLE: coracle_status = -7018;

/// Flag of coracle_op_new: a call with the operation begins its work, writes no answer (its out arguments may be NULL) and
/// returns CORACLE_AGAIN. The answer comes by coracle_op_result when the descriptor of coracle_op_fd is readable. A call that
/// refuses its arguments does so at once. The work runs on threads of the library, at most 16 for all operations together,
/// which end soon after the work; waits for the end of a container, an exec instance or a session take no thread.
/// The operation has no progress function, and a read function of the caller is refused (use coracle_read_fd).
pub const CORACLE_OP_NONBLOCK: u64 = 1;

/// A stream of a process: coracle_session_fd, coracle_session_read, coracle_frame.
pub const CORACLE_STDIN: i32 = 0;
/// See CORACLE_STDIN.
pub const CORACLE_STDOUT: i32 = 1;
/// See CORACLE_STDIN.
pub const CORACLE_STDERR: i32 = 2;

/// Flag of coracle_open_options: members of documents that this library does not know are passed over, for hosts that are
/// newer than it; answers with "Warnings" (or "Warning") name them there. Without it they are EINVALID.
pub const CORACLE_OPEN_LENIENT: u64 = 2;

/// Flag of coracle_open: containers that are created through this handle end when its last reference is closed or its program
/// ends, however it ends, unless they name another lease (coracle_lease_hold). The next open removes them.
pub const CORACLE_OPEN_EPHEMERAL: u64 = 4;

/// Flag of coracle_io: the process itself gets the descriptors that are given, so no byte that goes through them is
/// copied, logged or seen by others. Of starts and execs without a terminal; a container must have the log driver "none".
pub const CORACLE_IO_DIRECT: u64 = 1;

/// Flag of coracle_open: the call makes no new root; without one it fails with ENOT_FOUND.
pub const CORACLE_OPEN_EXISTING: u64 = 1;

/// Flag of coracle_container_remove: kill it first if it runs.
pub const CORACLE_REMOVE_FORCE: u64 = 1;
/// Flag of coracle_container_remove: remove its anonymous volumes too.
pub const CORACLE_REMOVE_VOLUMES: u64 = 2;
/// Flag of coracle_container_remove: `id` is a link; remove that, not the container.
pub const CORACLE_REMOVE_LINK: u64 = 4;
/// Flag of coracle_image_remove: untag, whatever stopped container uses it.
pub const CORACLE_IMAGE_REMOVE_FORCE: u64 = 1;
/// Flag of coracle_image_remove: keep untagged parents.
pub const CORACLE_IMAGE_REMOVE_NO_PRUNE: u64 = 2;
/// Flag of coracle_plugin_disable and coracle_plugin_remove: also while the plugin is used or enabled.
pub const CORACLE_PLUGIN_FORCE: u64 = 1;

/// Levels of coracle_set_log.
pub const CORACLE_LOG_ERROR: i32 = 1;
/// See CORACLE_LOG_ERROR.
pub const CORACLE_LOG_WARN: i32 = 2;
/// See CORACLE_LOG_ERROR.
pub const CORACLE_LOG_INFO: i32 = 3;
/// See CORACLE_LOG_ERROR.
pub const CORACLE_LOG_DEBUG: i32 = 4;

/// Releases `user` when the library no longer needs it; NULL if nothing is to be released.
pub type coracle_drop_fn = Option<unsafe extern "C" fn(user: *mut c_void)>;
/// Takes a message of the library; may be called from any thread, and must not call the library.
pub type coracle_log_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, level: i32, target: *const c_char, msg: *const c_char)>;
/// Takes a progress record (JSON, as the HTTP API streams it; valid during the call) or, with NULL, a heartbeat.
/// Other than 0 ends the operation with CORACLE_ECALLBACK.
///
/// Schemas: record_json progress.
pub type coracle_progress_fn = Option<unsafe extern "C" fn(user: *mut c_void, record_json: *const c_char) -> i32>;
/// Fills `buf` with up to `len` bytes and answers how many; 0 is the end; below 0 ends the operation with
/// CORACLE_ECALLBACK.
pub type coracle_read_fn = Option<unsafe extern "C" fn(user: *mut c_void, buf: *mut c_void, len: usize) -> i64>;

/// How a root is opened; start with CORACLE_OPEN_OPTIONS_INIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct coracle_open_options {
    /// sizeof(coracle_open_options).
    pub size: usize,
    /// Directory on tmpfs for what a reboot ends; NULL: one under /run/coracle, named after the root.
    pub run_dir: *const c_char,
    /// An object with any of: "durability" ("full", "normal", "off"), "log-driver", "log-opts" (object of strings), "ship-logs"
    /// (who delivers the logs of drivers that deliver: "program", one of its own, the default; "thread"; "none"), "outbox-max-size" and "outbox-max-age" (strings, such as "256m" and "168h": the bounds
    /// of the logs of removed containers whose lines are not delivered; absent: those of the open that named some last), "cgroup-parent", "userns-remap"
    /// (FIRST:COUNT of the host's ids, USER[:GROUP] of /etc/subuid and /etc/subgid, or "default"), "apparmor" (the profile of
    /// containers that name none, where the kernel has AppArmor; absent: coracle-default-1, "unconfined": none),
    /// "selinux-enabled" (containers have SELinux labels; refused where the kernel has no SELinux), "ip" (the host's address
    /// for published ports that name none), "relay-loopback" (ports at 127.0.0.1 are passed on by monitors, as where the kernel
    /// has no filter for bridges), "leave-docker-user" (no rule is added to DOCKER-USER, dockerd's chain for rules of other
    /// programs), "plugin-dirs" and "cdi-spec-dirs" (strings), "swarm-program" (the file of the program coracle-swarm, which is started when a
    /// request begins or joins a swarm, and when the root is in one; absent: none), "labels" (strings), "insecure-registries" (strings),
    /// "registry-mirrors" (strings, [REGISTRY=]URL), "http-proxy", "https-proxy", "no-proxy" (each: what the environment says
    /// at this call where absent), "small-memory" (pulls and loads in 16 MB), "large-windows" (takes what xz -9 and zstd --long
    /// compressed, with more memory), "restart-containers" (start, after a reboot, those whose restart policy asks for it).
    /// Unknown keys are refused. NULL: the defaults.
    pub config_json: *const c_char,
    /// Any of CORACLE_OPEN_EXISTING, CORACLE_OPEN_LENIENT, CORACLE_OPEN_EPHEMERAL, or 0.
    pub flags: u64,
}

/// Where the standard streams of a process come from; start with CORACLE_IO_INIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct coracle_io {
    /// sizeof(coracle_io).
    pub size: usize,
    /// CORACLE_IO_DIRECT, or 0.
    pub flags: u64,
    /// The process's stdin, of which the library takes a duplicate: the descriptor stays the caller's. Below 0: the
    /// library makes a socket pair, and the session has the other end.
    pub fd_in: i32,
    /// The process's stdout, likewise; below 0: a pipe.
    pub fd_out: i32,
    /// The process's stderr, likewise; below 0: a pipe.
    pub fd_err: i32,
    /// Size of its terminal, where it has one; 0: not set.
    pub rows: u16,
    /// See rows.
    pub cols: u16,
}

/// A record of a stream; start with CORACLE_FRAME_INIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct coracle_frame {
    /// sizeof(coracle_frame).
    pub size: usize,
    /// CORACLE_STDOUT or CORACLE_STDERR; 0 where the stream has no channels.
    pub channel: i32,
    /// Nanoseconds since 1970; 0 where the stream has no times.
    pub time_ns: i64,
    /// The bytes, without framing; valid until the next call on the stream.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

/// The answer of a call that was begun with CORACLE_OP_NONBLOCK; start with CORACLE_RESULT_INIT. Each member has the
/// argument of the call that is named in its comment; it is NULL where the call has no such argument.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct coracle_result {
    /// sizeof(coracle_result).
    pub size: usize,
    /// out_code: an exit code; out_status: an HTTP status; else -1.
    pub code: i32,
    /// out_id; free it with coracle_free.
    pub id: *mut c_char,
    /// out_json; free it with coracle_free.
    pub json: *mut c_char,
    /// out of a start or an attach; end it with coracle_session_free.
    pub session: *mut coracle_session,
    /// out of a call that gives a stream; end it with coracle_stream_free.
    pub stream: *mut coracle_stream,
}
