/*
 * Coracle: a whole container engine as a library. The C interface.
 *
 * The sections of this header; each begins with a line such as "== 6. Containers":
 *
 *    1. Status codes and errors
 *    2. The library
 *    3. Opening a root
 *    4. Other handles
 *    5. Operations
 *    6. Containers
 *    7. Sessions
 *    8. Streams
 *    9. Exec
 *   10. Logs
 *   11. Events
 *   12. Images
 *   13. Builds
 *   14. Registries
 *   15. Volumes
 *   16. Plugins
 *   17. Networks
 *   18. System and disk
 *   19. HTTP
 *
 * Functions are named after the object that they work on: coracle_container_stop, coracle_image_pull. Their arguments have one
 * order: the handle, the object's id, further arguments, the operation, the "out" arguments, the error. A function that can
 * fail returns a coracle_status: 0 is success, a code below 0 is an error, a code above 0 is success with a remark. A function
 * that returns a number or a descriptor returns a code below 0 for an error. The error argument may be NULL; if it is not, the
 * function always writes it, with NULL on success. A function writes its other "out" arguments too, also on failure: NULL,
 * 0 or -1. Each function that creates an object gives its id as text; its document is a second "out" argument, which may be
 * NULL.
 *
 * Handles. Each handle ends with its own free or close function: coracle with coracle_close, every other type with a
 * function named ..._free. They may end in any order, and NULL is allowed there. A call with a handle that has ended, or
 * with a handle of another type, or with garbage, returns CORACLE_EMISUSE and does not crash. NULL for an argument that
 * must be there is CORACLE_EINVALID.
 *
 * Text. Strings that the caller passes are NUL-terminated UTF-8 (paths: any bytes); the library keeps none of them.
 * Strings that a function writes to a `char **` belong to the caller, who frees them with coracle_free. Strings of type
 * `const char *` belong to the library; the function's comment says how long they are valid.
 *
 * Documents are JSON text with the schema of the HTTP API 1.24. A member that no version of the API knows is refused by
 * its name, unless the root was opened with CORACLE_OPEN_LENIENT. A member that is known and not supported is refused
 * too. "Schemas:" in a function's comment names the JSON schema of each of its documents: share/coracle/schema/NAME.json of the
 * installation. A document that goes in has members of its schema and no others; a document that comes out may have more in a
 * later version.
 *
 * Structs with a member `size` may grow in later versions. Set `size` to sizeof the struct; the ..._INIT macros do this. A
 * library that is older than the header refuses members that it does not know, unless they are 0.
 *
 * Threads. Any thread may call any function on any handle at any time. A function's comment names its exceptions after
 * "Threads:". The library calls a callback on the thread that called the library (the log sink alone is called on any
 * thread), and holds no lock meanwhile. A callback may call the library. It must return: it must not jump or throw.
 *
 * Blocking. "Blocks: no": the function returns without waiting for I/O. "Blocks: disk": it may wait for the disk. A
 * function that may wait longer takes a coracle_op, which can cancel the call or set a deadline. With NULL in its place
 * the call waits without a deadline. With an operation that has CORACLE_OP_NONBLOCK the call does not wait: see there.
 * A function that says "Blocks: until ..., or op ends the call" observes its operation while it lasts; one that takes an operation and
 * says anything else looks at it before it begins, and then comes to its end, so that it leaves nothing half done. Two functions
 * that may wait take no operation: coracle_open waits for the disk alone, so a program with a poll loop opens its roots before
 * the loop or on a thread; coracle_events_next has a timeout, a descriptor to poll, and returns when its events are freed.
 *
 * Errors. "Errors:" in a function's comment lists the errors of the function, without CORACLE_; "(op)" stands behind those
 * with which an operation ends the call. Besides, every function that takes a handle may answer EINVALID (an argument is NULL
 * that must be there, a text is not UTF-8, a document is not one of its schema), EMISUSE (see Handles), EFORKED (see Fork),
 * EIO (the operating system refused: no space, no descriptor), ENOMEM, ECORRUPT (data of the root is damaged), ETIMEOUT (another
 * program holds the object for ten minutes), EINTERNAL (the engine failed) and EPANIC (a defect of the library).
 *
 * The host. The library installs no signal handler, leaves no child process behind, and changes no working directory,
 * umask, limit or namespace of the host program. It writes nothing to standard output or standard error, makes every
 * descriptor close-on-exec, and never raises SIGPIPE. It cannot be unloaded: dlclose has no effect. When memory runs out,
 * it aborts the program.
 *
 * Fork. In the child of a fork (without exec) every call with a handle of the parent returns CORACLE_EFORKED, and the
 * free and close functions only forget the handle. The child may open other roots; after an exec it may open any root.
 *
 * Versions. Until 1.0 this interface may change in every version; CHANGELOG names each change. From 1.0 on, as long as the
 * soname is libcoracle.so.1, a program that was built with an older header runs with every newer library. In 1.x
 * - no function, argument, constant or member of a struct is removed, or gets another meaning or type;
 * - functions, constants, flags, names of coracle_has_feature, and members at the end of structs with a `size` may be added,
 *   and members of documents: a program passes over members that it does not know;
 * - a call that was an error may become a success, and a code of an error may become a more particular one: a program treats
 *   a code that it does not know as CORACLE_EINTERNAL;
 * - texts of messages may change: programs look at codes and at coracle_error_detail.
 * A function that is to go is marked as deprecated for at least one minor version, and goes with another soname.
 */

#ifndef CORACLE_H
#define CORACLE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && __GNUC__ >= 4
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* == 1. Status codes and errors =============================================================================
 *
 * A function answers with a status code. Its error object, if the caller asked for one, says more.
 */

/** 0 is success, below 0 an error (CORACLE_E...), above 0 success with a remark (CORACLE_DONE, ...). */
typedef int32_t coracle_status;

/** Success. */
#define CORACLE_OK 0

/** Success: the stream or the events have ended, and nothing was given. */
#define CORACLE_DONE 1

/** Success: there is nothing yet: the timeout passed, or the call was begun (CORACLE_OP_NONBLOCK). */
#define CORACLE_AGAIN 2

/** Success: the object was in that state before the call (HTTP 304). */
#define CORACLE_UNCHANGED 3

/** A parameter or document is wrong (HTTP 400). */
#define CORACLE_EINVALID (-7001)

/** Credentials are missing or refused (HTTP 401). */
#define CORACLE_EUNAUTHORIZED (-7002)

/** The operation is not permitted on this object (HTTP 403). */
#define CORACLE_EFORBIDDEN (-7003)

/** No such container, image, exec instance or file (HTTP 404). */
#define CORACLE_ENOT_FOUND (-7004)

/** The object's state, or another object, is in the way (HTTP 409). */
#define CORACLE_ECONFLICT (-7005)

/** The engine failed (HTTP 500). */
#define CORACLE_EINTERNAL (-7006)

/** The feature is not built in, or this kernel does not support it (HTTP 501). */
#define CORACLE_EUNSUPPORTED (-7007)

/** Something needed is not there now (HTTP 503). */
#define CORACLE_EUNAVAILABLE (-7008)

/** The operating system refused; coracle_error_errno has its error number. */
#define CORACLE_EIO (-7009)

/** Memory ran out. */
#define CORACLE_ENOMEM (-7010)

/** The operation's deadline passed. */
#define CORACLE_ETIMEOUT (-7011)

/** The operation was cancelled. */
#define CORACLE_ECANCELLED (-7012)

/** A callback refused to go on; coracle_error_detail has its number. */
#define CORACLE_ECALLBACK (-7013)

/** This process is a fork of the one that made the handle. */
#define CORACLE_EFORKED (-7014)

/** The library has a defect, which was caught; from then on the engine's handle only reads. */
#define CORACLE_EPANIC (-7015)

/** A handle is closed, of another type, or in use where it must not be. */
#define CORACLE_EMISUSE (-7016)

/** Stored data is damaged. */
#define CORACLE_ECORRUPT (-7017)

/** The engine is not in a state to answer (HTTP 406). */
#define CORACLE_ENOT_ACCEPTABLE (-7018)

/**
 * Gets a code's name, such as "NOT_FOUND" for CORACLE_ENOT_FOUND; "UNKNOWN" for a foreign number. Borrowed, valid for ever.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
const char *coracle_status_name(coracle_status s);

/** The reason for a failure. The caller owns it, and frees it with coracle_error_free. */
typedef struct coracle_error coracle_error;

/**
 * Gets the error's code: CORACLE_E...
 *
 * Returns CORACLE_OK for NULL.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_error_code(const coracle_error *e);

/**
 * Gets the HTTP status of the error, such as 404.
 *
 * Returns 0 for NULL.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
int32_t coracle_error_http_status(const coracle_error *e);

/**
 * Gets the kernel's error number if the kernel refused something, else 0.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
int32_t coracle_error_errno(const coracle_error *e);

/**
 * Gets the part of the engine that failed: "launch", "network", "store", ..., or the object of the function that was called:
 * "container", "image", "root", ...; never empty, never NULL.
 *
 * The text is the error's: valid until coracle_error_free.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
const char *coracle_error_area(const coracle_error *e);

/**
 * Gets one line of text for a person: the message of the HTTP answer; never NULL.
 *
 * The text is the error's: valid until coracle_error_free.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
const char *coracle_error_message(const coracle_error *e);

/**
 * Gets a JSON object with further facts for programs: "argument" (the name of an argument that is wrong), "field" (the path of a
 * member of that document, such as "HostConfig.Binds[1]"), "limit" (the bound that a value is beyond), "id" (of the object that
 * is in the way), "callback" (the number that a callback returned), "exitCode" (of a command of a build), "place" (of a defect).
 * "{}" if there are none.
 *
 * The text is the error's: valid until coracle_error_free.
 *
 * Schemas: answer error-detail.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
const char *coracle_error_detail(const coracle_error *e);

/**
 * Frees an error. NULL is fine.
 *
 * Threads: any, and last. Blocks: no. Since: 0.1.
 */
void coracle_error_free(coracle_error *e);

/* == 2. The library =========================================================================================
 *
 * The version and the features of the library, its log, and the end of texts that it gave. No function here needs a root.
 */

/** The version of this header, for the preprocessor; coracle_version describes the library. */
#define CORACLE_VERSION_MAJOR 0

/** See CORACLE_VERSION_MAJOR. */
#define CORACLE_VERSION_MINOR 1

/** See CORACLE_VERSION_MAJOR. */
#define CORACLE_VERSION_PATCH 0

/** The version of this header as one number, in the form of coracle_version. */
#define CORACLE_VERSION_NUMBER (CORACLE_VERSION_MAJOR * 65536 + CORACLE_VERSION_MINOR * 256 + CORACLE_VERSION_PATCH)

/** The version of this header as text, in the form of coracle_version_string. */
#define CORACLE_VERSION_STRING "0.1.0"

/** Whether this header is at least of that version: `#if CORACLE_VERSION_AT_LEAST(0, 1, 0)`. */
#define CORACLE_VERSION_AT_LEAST(major, minor, patch) \
  (CORACLE_VERSION_NUMBER >= (major) * 65536 + (minor) * 256 + (patch))

/**
 * Gets the library's version: major * 65536 + minor * 256 + patch.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
uint32_t coracle_version(void);

/**
 * Gets the library's version as text, such as "0.1.0". Borrowed, valid for ever.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
const char *coracle_version_string(void);

/**
 * Describes how the library was built: a JSON object with "version", "os", "arch", "debug". Borrowed, valid for ever.
 *
 * Schemas: answer build-info.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
const char *coracle_build_info(void);

/**
 * Returns whether this library has a feature: 1 or 0.
 *
 * The names of 0.1:
 * "archives", "build", "containers", "ephemeral", "events", "exec", "explain", "git",
 * "heartbeat", "host-report", "http", "http-serve", "images", "import-docker", "io-direct", "leases",
 * "lenient", "log-delivery", "logs", "metrics", "network-drivers", "networks", "nonblock", "plugins",
 * "registry", "root-copy", "stats", "tls", "update", "verify", "volumes", "wait".
 * NULL and other names answer 0. A name stays as long as the feature.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
int32_t coracle_has_feature(const char *name);

/**
 * Frees a string that the library gave (every `char **out_...`). NULL is fine.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
void coracle_free(void *p);

/** Releases `user` when the library no longer needs it; NULL if nothing is to be released. */
typedef void (*coracle_drop_fn)(void *user);

/** Takes a message of the library; may be called from any thread, and must not call the library. */
typedef void (*coracle_log_fn)(void *user, int32_t level, const char *target, const char *msg);

/** Levels of coracle_set_log. */
#define CORACLE_LOG_ERROR 1

/** See CORACLE_LOG_ERROR. */
#define CORACLE_LOG_WARN 2

/** See CORACLE_LOG_ERROR. */
#define CORACLE_LOG_INFO 3

/** See CORACLE_LOG_ERROR. */
#define CORACLE_LOG_DEBUG 4

/**
 * Sets the process's log sink: `fn` is called for messages of `level` (CORACLE_LOG_...) and graver.
 *
 * The library never prints; without a sink its messages are lost. Error: defects that it caught. Warn: what was put right or
 * given up (killed monitors, locks that another call holds too long). Info: opens, starts, stops, pulls, builds, sweeps, each
 * with its duration, a container's with " container=ID"; further attempts at a registry, with the reason. Debug: the step and
 * the error number of a failing start, the networks of a start. The target is the part of the engine. `fn` NULL removes the
 * sink. `drop`, where given, is called with `user` once, when the sink was replaced and no call of it is left. This is the only
 * state that engines share, and the only callback that comes on other threads than the caller's.
 *
 * Errors: EINVALID (level).
 *
 * Threads: any; `fn` is called from any thread. Blocks: no. Since: 0.1.
 */
coracle_status coracle_set_log(int32_t level,
                               coracle_log_fn fn,
                               void *user,
                               coracle_drop_fn drop,
                               coracle_error **err);

/* == 3. Opening a root ======================================================================================
 *
 * A root is a directory with everything that an engine keeps. Nearly every function takes an opened root.
 */

/** An opened engine root. */
typedef struct coracle coracle;

/** Flag of coracle_open: the call makes no new root; without one it fails with ENOT_FOUND. */
#define CORACLE_OPEN_EXISTING 1

/**
 * Flag of coracle_open_options: members of documents that this library does not know are passed over, for hosts that are
 * newer than it; answers with "Warnings" (or "Warning") name them there. Without it they are EINVALID.
 */
#define CORACLE_OPEN_LENIENT 2

/**
 * Flag of coracle_open: containers that are created through this handle end when its last reference is closed or its program
 * ends, however it ends, unless they name another lease (coracle_lease_hold). The next open removes them.
 */
#define CORACLE_OPEN_EPHEMERAL 4

/** How a root is opened; start with CORACLE_OPEN_OPTIONS_INIT. */
typedef struct {
  /** sizeof(coracle_open_options). */
  size_t size;
  /** Directory on tmpfs for what a reboot ends; NULL: one under /run/coracle, named after the root. */
  const char *run_dir;
  /**
   * An object with any of: "durability" ("full", "normal", "off"), "log-driver", "log-opts" (object of strings), "ship-logs"
   * (who delivers the logs of drivers that deliver: "program", one of its own, the default; "thread"; "none"), "outbox-max-size" and "outbox-max-age" (strings, such as "256m" and "168h": the bounds
   * of the logs of removed containers whose lines are not delivered; absent: those of the open that named some last), "cgroup-parent", "userns-remap"
   * (FIRST:COUNT of the host's ids, USER[:GROUP] of /etc/subuid and /etc/subgid, or "default"), "apparmor" (the profile of
   * containers that name none, where the kernel has AppArmor; absent: coracle-default-1, "unconfined": none),
   * "selinux-enabled" (containers have SELinux labels; refused where the kernel has no SELinux), "ip" (the host's address
   * for published ports that name none), "relay-loopback" (ports at 127.0.0.1 are passed on by monitors, as where the kernel
   * has no filter for bridges), "leave-docker-user" (no rule is added to DOCKER-USER, dockerd's chain for rules of other
   * programs), "plugin-dirs" and "cdi-spec-dirs" (strings), "swarm-program" (the file of the program coracle-swarm, which is started when a
   * request begins or joins a swarm, and when the root is in one; absent: none), "labels" (strings), "insecure-registries" (strings),
   * "registry-mirrors" (strings, [REGISTRY=]URL), "http-proxy", "https-proxy", "no-proxy" (each: what the environment says
   * at this call where absent), "small-memory" (pulls and loads in 16 MB), "large-windows" (takes what xz -9 and zstd --long
   * compressed, with more memory), "restart-containers" (start, after a reboot, those whose restart policy asks for it).
   * Unknown keys are refused. NULL: the defaults.
   */
  const char *config_json;
  /** Any of CORACLE_OPEN_EXISTING, CORACLE_OPEN_LENIENT, CORACLE_OPEN_EPHEMERAL, or 0. */
  uint64_t flags;
} coracle_open_options;

/** The start value of a coracle_open_options: the defaults. */
#define CORACLE_OPEN_OPTIONS_INIT { sizeof(coracle_open_options), NULL, NULL, 0 }

/**
 * Opens the engine root `root`, a directory, and makes it if it is not there (unless CORACLE_OPEN_EXISTING is given).
 *
 * root: path, any bytes. opt: NULL is the defaults. *out: the engine; end it with coracle_close.
 * Any number of programs may have one root open at the same time.
 *
 * Schemas: opt.config_json open-config.
 *
 * Errors: EINVALID (an option), EFORBIDDEN (a capability is missing, named), EUNSUPPORTED (a kernel call is missing,
 * named; a store of a newer library), ENOT_FOUND (CORACLE_OPEN_EXISTING, and there is none), EIO (the root cannot be
 * made or written), ECONFLICT (another copy of the library in this process has the root open).
 *
 * Threads: any. Blocks: disk; after a reboot until the root is put in order. Since: 0.1.
 */
coracle_status coracle_open(const char *root, const coracle_open_options *opt, coracle **out, coracle_error **err);

/**
 * Looks at everything that an engine needs of the host: kernel, capabilities, control groups, the directories, firewalls of
 * other programs, certificates. coracle_open stops at the first need that is missing.
 *
 * root, opt: as of coracle_open; no root is made or opened. *out_json: an object with "Version", "Kernel", "Ready" (nothing is
 * missing) and "Needs", a list of {"Area", "Name", "State" ("met", "reduced" or "missing"), "Found", "Loss", "Cure"}; free it
 * with coracle_free.
 *
 * Schemas: opt.config_json open-config, out_json host-report.
 *
 * Errors: EINVALID (an option).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_host_report(const char *root,
                                   const coracle_open_options *opt,
                                   char **out_json,
                                   coracle_error **err);

/**
 * Makes another handle of the same engine, for code that needs the engine after the first handle is closed. Each handle
 * ends with its own coracle_close.
 *
 * Returns NULL for NULL, for a handle that is not open, and in the child of a fork.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle *coracle_ref(coracle *c);

/**
 * Ends an engine handle. Containers run on; sessions, streams and events that came from it stay valid. NULL is fine.
 *
 * In the child of a fork it only forgets the handle.
 *
 * Threads: any; calls that use the handle run to their end. Blocks: no. Since: 0.1.
 */
void coracle_close(coracle *c);

/* == 4. Other handles =======================================================================================
 *
 * The handles that functions below give out, and the functions that read archives from the caller.
 */

/** An attached process: its standard streams, its end, its terminal. */
typedef struct coracle_session coracle_session;

/** Bytes or records that come out of the engine. */
typedef struct coracle_stream coracle_stream;

/** Events of a root. */
typedef struct coracle_events coracle_events;

/** A server of the HTTP API. */
typedef struct coracle_http_server coracle_http_server;

/**
 * Fills `buf` with up to `len` bytes and answers how many; 0 is the end; below 0 ends the operation with
 * CORACLE_ECALLBACK.
 */
typedef int64_t (*coracle_read_fn)(void *user, void *buf, size_t len);

/**
 * Reads from a descriptor: a coracle_read_fn for functions of this library that take an archive.
 *
 * user: the descriptor, as (void *)(intptr_t)fd. A function that gets this function reads the descriptor itself, by a
 * duplicate, and so may be called with CORACLE_OP_NONBLOCK. Returns how many bytes, 0 at the end, -errno on failure.
 *
 * Threads: any. Blocks: as read(2) of the descriptor. Since: 0.1.
 */
int64_t coracle_read_fd(void *user, void *buf, size_t len);

/* == 5. Operations ==========================================================================================
 *
 * A call that may last takes an operation, or NULL. From another thread, or in advance, the operation
 * cancels the call, sets its deadline, and reports its progress. An operation with CORACLE_OP_NONBLOCK lets
 * a program with a poll loop make any number of such calls at once.
 */

/** Cancels, bounds and watches calls that may block. */
typedef struct coracle_op coracle_op;

/**
 * Takes a progress record (JSON, as the HTTP API streams it; valid during the call) or, with NULL, a heartbeat.
 * Other than 0 ends the operation with CORACLE_ECALLBACK.
 *
 * Schemas: record_json progress.
 */
typedef int32_t (*coracle_progress_fn)(void *user, const char *record_json);

/**
 * Flag of coracle_op_new: a call with the operation begins its work, writes no answer (its out arguments may be NULL) and
 * returns CORACLE_AGAIN. The answer comes by coracle_op_result when the descriptor of coracle_op_fd is readable. A call that
 * refuses its arguments does so at once. The work runs on threads of the library, at most 16 for all operations together,
 * which end soon after the work; waits for the end of a container, an exec instance or a session take no thread.
 * The operation has no progress function, and a read function of the caller is refused (use coracle_read_fd).
 */
#define CORACLE_OP_NONBLOCK 1

/**
 * Makes an operation: not cancelled, with no deadline and no progress function.
 *
 * flags: 0, or CORACLE_OP_NONBLOCK. *out: free the operation with coracle_op_free. Pass an operation to one call after
 * another, not to two at once.
 *
 * Errors: EINVALID (flags), EIO (no descriptor is left).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_op_new(uint64_t flags, coracle_op **out, coracle_error **err);

/**
 * Ends the call that uses the operation: it returns CORACLE_ECANCELLED, and so does every later one with it.
 *
 * NULL, freed handles and forked children are left alone. errno is kept.
 *
 * Threads: any, and signal handlers (async-signal-safe while the operation is not being freed). Blocks: no. Since: 0.1.
 */
void coracle_op_cancel(coracle_op *op);

/**
 * Bounds the operation: `ms` from now its call returns CORACLE_ETIMEOUT; below 0: no bound.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
void coracle_op_set_timeout(coracle_op *op, int64_t ms);

/**
 * Sets the function that gets the progress records of load, import and their like, and heartbeats.
 *
 * heartbeat_ms: above 0, the function is also called with NULL about that often while a call blocks, so that a caller
 * can look at its own world (Ctrl-C); other than 0 from it ends the call. fn NULL: none. drop, where given, is called
 * with `user` once when the function is not needed any more.
 *
 * Threads: any, not while a call uses the operation; `fn` comes on the thread inside that call only. Blocks: no. Since: 0.1.
 */
void coracle_op_set_progress(coracle_op *op,
                             coracle_progress_fn fn,
                             void *user,
                             coracle_drop_fn drop,
                             int32_t heartbeat_ms);

/**
 * Gets the descriptor of an operation with CORACLE_OP_NONBLOCK, for poll, epoll and select (level-triggered): when it is
 * readable, call coracle_op_result.
 *
 * The descriptor is the same as long as the operation lives. It is borrowed: valid until coracle_op_free; the caller must not
 * read or close it. Returns a code below 0 on failure: CORACLE_EMISUSE for an operation without CORACLE_OP_NONBLOCK.
 *
 * Errors: EMISUSE (op was made without CORACLE_OP_NONBLOCK).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
int32_t coracle_op_fd(coracle_op *op);

/**
 * The answer of a call that was begun with CORACLE_OP_NONBLOCK; start with CORACLE_RESULT_INIT. Each member has the
 * argument of the call that is named in its comment; it is NULL where the call has no such argument.
 */
typedef struct {
  /** sizeof(coracle_result). */
  size_t size;
  /** out_code: an exit code; out_status: an HTTP status; else -1. */
  int32_t code;
  /** out_id; free it with coracle_free. */
  char *id;
  /** out_json; free it with coracle_free. */
  char *json;
  /** out of a start or an attach; end it with coracle_session_free. */
  coracle_session *session;
  /** out of a call that gives a stream; end it with coracle_stream_free. */
  coracle_stream *stream;
} coracle_result;

/** The start value of a coracle_result. */
#define CORACLE_RESULT_INIT { sizeof(coracle_result), -1, NULL, NULL, NULL, NULL }

/**
 * Takes the answer of the call that was begun with an operation.
 *
 * *out: a coracle_result with its size set; it gets whatever the call gives. Returns CORACLE_AGAIN if there is no answer yet
 * (a wait goes on in this function, so call it whenever the descriptor is readable), else the call's own status. After any
 * other status than CORACLE_AGAIN the operation takes the next call.
 *
 * Errors: those of the call, EMISUSE (no call was begun, or its answer was taken; op was made without CORACLE_OP_NONBLOCK),
 * EINVALID (out).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_op_result(coracle_op *op,
                                 coracle_result *out,
                                 coracle_error **err);

/**
 * Frees an operation. A call that was begun with it and is not over is cancelled, and an answer that was not taken is
 * dropped. NULL is fine.
 *
 * Threads: any, and last. Blocks: no. Since: 0.1.
 */
void coracle_op_free(coracle_op *op);

/* == 6. Containers ==========================================================================================
 *
 * First a container's life from its creation to its removal, then questions about a container, then its
 * files. Logs have a section of their own.
 */

/**
 * Creates a container from an image of the root.
 *
 * name: NULL: the engine makes one up. body_json: the body of POST /containers/create. *out_id: the container's id; free it
 * with coracle_free. *out_json (may be NULL): {"Id":..., "Warnings":[...]}; free it with coracle_free.
 *
 * Schemas: body_json container-create, out_json container-created.
 *
 * Errors: EINVALID (a field, named), ENOT_FOUND (image), ECONFLICT (name; nobody holds its lease), EUNSUPPORTED (a
 * field that is not supported), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_container_create(coracle *c,
                                        const char *name,
                                        const char *body_json,
                                        coracle_op *op,
                                        char **out_id,
                                        char **out_json,
                                        coracle_error **err);

/**
 * Holds a lease: a descriptor that ends containers when the last process that has it open closes it or ends, also by
 * SIGKILL.
 *
 * name: at most 128 letters, digits, '_', '.' and '-'. *out_fd: the caller's to close (close-on-exec); -1 on failure. Any
 * number of programs may hold one lease; a child that inherits the descriptor holds it too. A container that is created
 * with the label "coracle.lease" and the name as its value is created and started only while somebody holds the lease.
 * When the last holder is gone, the container's monitor ends it with SIGKILL, and the next look at it removes it. The
 * containers of a root opened with CORACLE_OPEN_EPHEMERAL have a lease of that handle in the same way.
 *
 * Errors: EINVALID (name).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_lease_hold(coracle *c,
                                  const char *name,
                                  int32_t *out_fd,
                                  coracle_error **err);

/** Where the standard streams of a process come from; start with CORACLE_IO_INIT. */
typedef struct {
  /** sizeof(coracle_io). */
  size_t size;
  /** CORACLE_IO_DIRECT, or 0. */
  uint64_t flags;
  /**
   * The process's stdin, of which the library takes a duplicate: the descriptor stays the caller's. Below 0: the
   * library makes a socket pair, and the session has the other end.
   */
  int32_t fd_in;
  /** The process's stdout, likewise; below 0: a pipe. */
  int32_t fd_out;
  /** The process's stderr, likewise; below 0: a pipe. */
  int32_t fd_err;
  /** Size of its terminal, where it has one; 0: not set. */
  uint16_t rows;
  /** See rows. */
  uint16_t cols;
} coracle_io;

/** The start value of a coracle_io: the library makes every stream. */
#define CORACLE_IO_INIT { sizeof(coracle_io), 0, -1, -1, -1, 0, 0 }

/**
 * Flag of coracle_io: the process itself gets the descriptors that are given, so no byte that goes through them is
 * copied, logged or seen by others. Of starts and execs without a terminal; a container must have the log driver "none".
 */
#define CORACLE_IO_DIRECT 1

/**
 * Starts a container.
 *
 * io: NULL starts it detached (then out may be NULL, and *out is NULL); else it is attached before its process runs, so
 * that no byte is missed. *out: the session; end it with coracle_session_free.
 * Returns CORACLE_UNCHANGED if the container runs already; *out is NULL then.
 *
 * The container outlives the calling program. While it is started, signals are blocked on the calling thread for about
 * a millisecond; no child of the caller's is left (if the caller is PID 1 or a subreaper, one is).
 *
 * Errors: ENOT_FOUND (container), EINVALID (its command is not there, or cannot run), ECONFLICT (paused, being
 * removed), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until its process runs. Since: 0.1.
 */
coracle_status coracle_container_start(coracle *c,
                                       const char *id,
                                       const coracle_io *io,
                                       coracle_op *op,
                                       coracle_session **out,
                                       coracle_error **err);

/**
 * Attaches to a container's standard streams.
 *
 * io: NULL is CORACLE_IO_INIT: the library makes the streams. query_json: NULL, or an object with any of "stdin",
 * "stdout", "stderr" (all if none is given), "wait" (true: the call returns before the container runs; the session has the
 * container's output from the first byte on). *out: the session; end it with coracle_session_free.
 *
 * Schemas: query_json container-attach-query.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the container does not run, and no "wait"; the container is paused), EINVALID (query_json),
 * ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_container_attach(coracle *c,
                                        const char *id,
                                        const coracle_io *io,
                                        const char *query_json,
                                        coracle_op *op,
                                        coracle_session **out,
                                        coracle_error **err);

/**
 * Stops a container: its stop signal and, if it still runs after grace_ms, SIGKILL.
 *
 * grace_ms: milliseconds; below 0: SIGKILL is never sent. Returns CORACLE_UNCHANGED if the container does not run.
 *
 * Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT, ECALLBACK (op; the signal was sent).
 *
 * Threads: any. Blocks: until the container has ended, or op ends the call. Since: 0.1.
 */
coracle_status coracle_container_stop(coracle *c,
                                      const char *id,
                                      int64_t grace_ms,
                                      coracle_op *op,
                                      coracle_error **err);

/**
 * Stops a container with a signal and a time of its own.
 *
 * how_json: NULL, or an object with any of "signal" (a name with or without SIG, or a number as text; without it the
 * container's own stop signal) and "grace_ms" (milliseconds until SIGKILL; negative: never; without it the container's own
 * time, "StopTimeout" of its configuration, or 10 seconds).
 *
 * Returns CORACLE_UNCHANGED if the container does not run.
 *
 * Schemas: how_json container-stop.
 *
 * Errors: ENOT_FOUND, EINVALID (how_json), ECANCELLED, ETIMEOUT, ECALLBACK (op; the signal was sent).
 *
 * Threads: any. Blocks: until the container has ended, or op ends the call. Since: 0.1.
 */
coracle_status coracle_container_stop_with(coracle *c,
                                           const char *id,
                                           const char *how_json,
                                           coracle_op *op,
                                           coracle_error **err);

/**
 * Stops a container if it runs (as coracle_container_stop), and starts it.
 *
 * Errors: ENOT_FOUND, EINVALID (its command is not there, or cannot run), ECANCELLED, ETIMEOUT, ECALLBACK (op; the
 * signal was sent).
 *
 * Threads: any. Blocks: until the container runs again, or op ends the call. Since: 0.1.
 */
coracle_status coracle_container_restart(coracle *c,
                                         const char *id,
                                         int64_t grace_ms,
                                         coracle_op *op,
                                         coracle_error **err);

/**
 * Stops a container if it runs (as coracle_container_stop_with), and starts it.
 *
 * how_json: as for coracle_container_stop_with.
 *
 * Schemas: how_json container-stop.
 *
 * Errors: ENOT_FOUND, EINVALID (how_json; its command is not there, or cannot run), ECANCELLED, ETIMEOUT, ECALLBACK
 * (op; the signal was sent).
 *
 * Threads: any. Blocks: until the container runs again, or op ends the call. Since: 0.1.
 */
coracle_status coracle_container_restart_with(coracle *c,
                                              const char *id,
                                              const char *how_json,
                                              coracle_op *op,
                                              coracle_error **err);

/**
 * Sends a signal to a container's first process.
 *
 * signal: a name with or without SIG, or a number as text; NULL: SIGKILL. The call waits for the effect of SIGKILL.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the container does not run), EINVALID (signal), ECANCELLED, ETIMEOUT, ECALLBACK (op).
 *
 * Threads: any. Blocks: for SIGKILL until the container has ended, or op ends the call; else no. Since: 0.1.
 */
coracle_status coracle_container_kill(coracle *c,
                                      const char *id,
                                      const char *signal,
                                      coracle_op *op,
                                      coracle_error **err);

/**
 * Freezes a container's processes.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the container does not run, or is paused), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until they are frozen. Since: 0.1.
 */
coracle_status coracle_container_pause(coracle *c, const char *id, coracle_op *op, coracle_error **err);

/**
 * Thaws a container's processes.
 *
 * Errors: ENOT_FOUND, EINTERNAL (the container is not paused), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until they are thawed. Since: 0.1.
 */
coracle_status coracle_container_unpause(coracle *c, const char *id, coracle_op *op, coracle_error **err);

/**
 * Waits for the end of a container.
 *
 * condition: "not-running" (also NULL: the container does not run), "next-exit" (the next end, also if the container does
 * not run yet; or its removal), "removed". *out_code: the exit code of the last run: 0 to 255; 128 + n if signal n ended
 * it; 0 if it never ran. *out_json (may be NULL): {"StatusCode":..., "Error":{"Message":...}}; "Error" only if the container
 * was created with AutoRemove and its removal failed. Free it with coracle_free.
 *
 * A wait that is begun (CORACLE_OP_NONBLOCK) misses no end after this call returned: begin a wait for "next-exit", start
 * the container, then poll.
 *
 * Schemas: out_json container-wait.
 *
 * Errors: ENOT_FOUND (also after the end of a container with AutoRemove), EINVALID (condition), ECANCELLED, ETIMEOUT,
 * ECALLBACK (op).
 *
 * Threads: any. Blocks: until that happens, or op ends the call. Since: 0.1.
 */
coracle_status coracle_container_wait(coracle *c,
                                      const char *id,
                                      const char *condition,
                                      coracle_op *op,
                                      int32_t *out_code,
                                      char **out_json,
                                      coracle_error **err);

/**
 * Gets a pidfd of a running container's first process, for the caller's own event loop: readable when the process ended.
 *
 * *out_fd: the caller's to close (close-on-exec); -1 on failure. The process is not a child of the caller: ask
 * coracle_container_wait for the exit code. With CORACLE_OP_NONBLOCK coracle_container_wait gives a descriptor and the code.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the container does not run).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_container_pidfd(coracle *c,
                                       const char *id,
                                       int32_t *out_fd,
                                       coracle_error **err);

/** Flag of coracle_container_remove: kill it first if it runs. */
#define CORACLE_REMOVE_FORCE 1

/** Flag of coracle_container_remove: remove its anonymous volumes too. */
#define CORACLE_REMOVE_VOLUMES 2

/** Flag of coracle_container_remove: `id` is a link; remove that, not the container. */
#define CORACLE_REMOVE_LINK 4

/**
 * Removes a container.
 *
 * flags: CORACLE_REMOVE_FORCE, CORACLE_REMOVE_VOLUMES, CORACLE_REMOVE_LINK, or 0.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the container runs, and no force; the container is being removed), EINVALID (flags),
 * ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk; with force until the container has ended, or op ends the call. Since: 0.1.
 */
coracle_status coracle_container_remove(coracle *c,
                                        const char *id,
                                        uint64_t flags,
                                        coracle_op *op,
                                        coracle_error **err);

/**
 * Removes the containers that do not run, but not their volumes.
 *
 * filters_json: NULL, or an object of lists as the "filters" of coracle_container_list: only those that match are
 * removed. *out_json: an object with "ContainersDeleted" (a list of ids) and "SpaceReclaimed" in bytes; free it with
 * coracle_free.
 *
 * Schemas: filters_json filters, out_json container-prune.
 *
 * Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). Objects that were removed before an error stay removed.
 *
 * Threads: any. Blocks: until all containers were looked at, or op ends the call. Since: 0.1.
 */
coracle_status coracle_container_prune(coracle *c,
                                       const char *filters_json,
                                       coracle_op *op,
                                       char **out_json,
                                       coracle_error **err);

/**
 * Lists containers, newest first.
 *
 * query_json: NULL, or an object with any of "all", "limit", "size", "since", "before", "filters" (as in
 * GET /containers/json). *out_json: its document; free it with coracle_free.
 *
 * Schemas: query_json container-list-query, out_json container-list.
 *
 * Errors: EINVALID (a filter), EINTERNAL (since or before names no container).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_container_list(coracle *c, const char *query_json, char **out_json, coracle_error **err);

/**
 * Describes one container in full.
 *
 * id: name, id, or the beginning of an id that no other container has. Every function takes such an id. with_size: other than 0: the
 * document has "SizeRw" and "SizeRootFs". *out_json: the document of GET /containers/{id}/json; free it with coracle_free.
 *
 * Schemas: out_json container.
 *
 * Errors: ENOT_FOUND.
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_container_inspect(coracle *c,
                                         const char *id,
                                         int32_t with_size,
                                         char **out_json,
                                         coracle_error **err);

/**
 * Describes a container's launch in words, one line a step, with the kernel's answer to the step at which the last start
 * failed.
 *
 * *out_json: an object with "Id", "Name", "Steps" (a list of {"Number", "Text"}, and "Failed" where it failed), "Error" (why
 * the last start failed, or ""), "FailedStep", "Errno" (0: none) and "ErrnoName"; free it with coracle_free.
 *
 * Schemas: out_json launch-plan.
 *
 * Errors: ENOT_FOUND, ECONFLICT (a container whose namespaces it shares does not run).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_container_explain(coracle *c,
                                         const char *id,
                                         char **out_json,
                                         coracle_error **err);

/**
 * Lists the processes of a running container, as ps shows them.
 *
 * ps_args: the arguments of ps; NULL: "-ef". *out_json: the document of GET /containers/{id}/top; free it with
 * coracle_free.
 *
 * Schemas: out_json container-top.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the container does not run), EINTERNAL (ps_args).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_container_top(coracle *c,
                                     const char *id,
                                     const char *ps_args,
                                     char **out_json,
                                     coracle_error **err);

/**
 * Samples the resources that a container uses: CPU, memory, block devices, network, processes.
 *
 * query_json: NULL, or an object with any of "stream" (default true: a sample at once and then one a second until the
 * container is removed; false: one, after a second in which "precpu_stats" is taken), "one-shot" (with "stream" false:
 * one at once). *out: records for coracle_stream_next, each the document of GET /containers/{id}/stats; its descriptor
 * is readable when the next is due; end it with coracle_stream_free.
 *
 * Schemas: query_json container-stats-query, record container-stats.
 *
 * Errors: ENOT_FOUND, EINVALID (query_json), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk; the stream's calls until a sample is due. Since: 0.1.
 */
coracle_status coracle_container_stats(coracle *c,
                                       const char *id,
                                       const char *query_json,
                                       coracle_op *op,
                                       coracle_stream **out,
                                       coracle_error **err);

/**
 * Renames a container.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the name is another's), EINVALID (name).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_container_rename(coracle *c, const char *id, const char *name, coracle_error **err);

/**
 * Changes a container's limits, at once where it runs, and its restart policy.
 *
 * body_json: the body of POST /containers/{id}/update: any of "BlkioWeight", "CpuShares", "CpuPeriod", "CpuQuota",
 * "CpusetCpus", "CpusetMems", "Memory", "MemorySwap", "MemoryReservation", "KernelMemory", "PidsLimit" (0 and "" leave
 * a value as it is), "RestartPolicy". *out_json: {"Warnings":[...]}; free it with coracle_free.
 *
 * Schemas: body_json container-update, out_json container-updated.
 *
 * Errors: ENOT_FOUND, EINVALID (a value, named), ECONFLICT (memory above the swap limit), EINTERNAL (the kernel
 * refuses a value, such as less memory than is in use; nothing is changed then), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk; while the kernel takes memory back. Since: 0.1.
 */
coracle_status coracle_container_update(coracle *c,
                                        const char *id,
                                        const char *body_json,
                                        coracle_op *op,
                                        char **out_json,
                                        coracle_error **err);

/**
 * Describes the file at a path of a container.
 *
 * path: absolute in the container; a link at its end is not followed unless it ends in "/" or "/.". *out_json: an object
 * with "name", "size", "mode", "mtime", "linkTarget", as X-Docker-Container-Path-Stat has it; free it with coracle_free.
 *
 * Schemas: out_json path-stat.
 *
 * Errors: ENOT_FOUND (container, file), EINVALID (path; no directory there), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk, or op. Since: 0.1.
 */
coracle_status coracle_container_stat_path(coracle *c,
                                           const char *id,
                                           const char *path,
                                           coracle_op *op,
                                           char **out_json,
                                           coracle_error **err);

/**
 * Copies files out of a container, as a tar.
 *
 * path: as of coracle_container_stat_path; of a directory that ends in "/." only its content. *out: the tar's bytes; read
 * them to their end, where an error shows that the tar is not whole; end it with coracle_stream_free. *out_json (may be
 * NULL): the description of the file at path; free it with coracle_free.
 *
 * Schemas: out_json path-stat.
 *
 * Errors: ENOT_FOUND (container, file), EINVALID (path; no directory there), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk, or op; the stream's calls. Since: 0.1.
 */
coracle_status coracle_container_get_archive(coracle *c,
                                             const char *id,
                                             const char *path,
                                             coracle_op *op,
                                             coracle_stream **out,
                                             char **out_json,
                                             coracle_error **err);

/**
 * Puts files into a container: extracts a tar, plain or compressed, into a directory of it.
 *
 * query_json: NULL, or an object with any of "noOverwriteDirNonDir" and "copyUIDGID" (the files get the container's
 * user). tar, user: the function that gives the archive.
 *
 * Schemas: query_json container-put-archive-query.
 *
 * Errors: ENOT_FOUND (container, directory), EINVALID (archive; a directory and something else in one place),
 * EFORBIDDEN (read-only there), ECALLBACK, ECANCELLED, ETIMEOUT, EIO (disk full).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the archive is in, or op ends the call. Since: 0.1.
 */
coracle_status coracle_container_put_archive(coracle *c,
                                             const char *id,
                                             const char *path,
                                             const char *query_json,
                                             coracle_read_fn tar,
                                             void *user,
                                             coracle_op *op,
                                             coracle_error **err);

/**
 * Writes a container's whole file system as a tar, without binds and volumes.
 *
 * *out: the tar's bytes; read them to their end, where an error shows that the tar is not whole; end it with
 * coracle_stream_free.
 *
 * Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk; the stream's calls. Since: 0.1.
 */
coracle_status coracle_container_export(coracle *c,
                                        const char *id,
                                        coracle_op *op,
                                        coracle_stream **out,
                                        coracle_error **err);

/**
 * Lists the files that a container changed, compared with its image.
 *
 * *out_json: a list of {"Path", "Kind"}, Kind 0 modified, 1 added, 2 deleted; free it with coracle_free.
 *
 * Schemas: out_json container-changes.
 *
 * Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_container_changes(coracle *c,
                                         const char *id,
                                         coracle_op *op,
                                         char **out_json,
                                         coracle_error **err);

/**
 * Makes an image of a container, without its volumes.
 *
 * query_json: NULL, or an object with any of "repo", "tag", "comment", "author", "pause" (true unless said), "changes" (a
 * list of build instructions). config_json: NULL, or a configuration laid over the container's. *out_id: the image's id;
 * free it with coracle_free.
 *
 * Schemas: query_json container-commit-query, config_json container-config.
 *
 * Errors: ENOT_FOUND, EINVALID (name, changes), ECANCELLED, ETIMEOUT (op), EIO (disk full).
 *
 * Threads: any. Blocks: until the image is on disk, or op ends the call. Since: 0.1.
 */
coracle_status coracle_container_commit(coracle *c,
                                        const char *id,
                                        const char *query_json,
                                        const char *config_json,
                                        coracle_op *op,
                                        char **out_id,
                                        coracle_error **err);

/* == 7. Sessions ============================================================================================
 *
 * A session is an attached process: of coracle_container_start, coracle_container_attach or
 * coracle_exec_start. Its streams are descriptors.
 */

/** A stream of a process: coracle_session_fd, coracle_session_read, coracle_frame. */
#define CORACLE_STDIN 0

/** See CORACLE_STDIN. */
#define CORACLE_STDOUT 1

/** See CORACLE_STDIN. */
#define CORACLE_STDERR 2

/**
 * Reads output of the process, whichever stream has some.
 *
 * *out_channel (may be NULL): CORACLE_STDOUT or CORACLE_STDERR. Returns how many bytes, 0 when every stream has ended, a
 * code below 0 on failure.
 *
 * Errors: ECANCELLED, ETIMEOUT, ECALLBACK (op), EMISUSE (another thread reads), EINVALID.
 *
 * Threads: one reader at a time, beside one writer. Blocks: until there is output, its end, or op ends the call. Since: 0.1.
 */
int64_t coracle_session_read(coracle_session *s,
                             void *buf,
                             size_t len,
                             coracle_op *op,
                             int32_t *out_channel,
                             coracle_error **err);

/**
 * Writes to the process's stdin.
 *
 * Returns how many bytes went, which may be fewer than `len`, or a code below 0 on failure.
 *
 * Input that a process did not read before it closed its stdin is dropped.
 *
 * Errors: EIO with errno EPIPE (the process ended; no signal is raised), EMISUSE (the session has no stdin, or another
 * thread writes), ECANCELLED, ETIMEOUT, ECALLBACK (op), EINVALID.
 *
 * Threads: one writer at a time, beside one reader. Blocks: until the process took something, or op ends the call. Since: 0.1.
 */
int64_t coracle_session_write(coracle_session *s,
                              const void *buf,
                              size_t len,
                              coracle_op *op,
                              coracle_error **err);

/**
 * Ends the process's stdin: the process reads the bytes that were written, then the end, whatever "StdinOnce" says. A caller
 * that took the descriptor (coracle_session_take_fd) closes it after this call. If a session is freed, the stdin of a process
 * without "StdinOnce" stays open.
 *
 * Errors: none but those of every function.
 *
 * Threads: any; the writer. Blocks: no. Since: 0.1.
 */
coracle_status coracle_session_close_stdin(coracle_session *s,
                                           coracle_error **err);

/**
 * Gets the session's end of a stream, for poll, epoll and select, or to be read or written directly: stdin is a socket (send
 * with MSG_NOSIGNAL), stdout and stderr are pipes.
 *
 * Borrowed: valid until it is taken or the session freed. Returns a code below 0 where the session does not have it
 * (not attached, taken, the caller's own descriptor, or stderr of a terminal).
 *
 * Errors: EINVALID (channel), ENOT_FOUND (the session does not have it).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
int32_t coracle_session_fd(coracle_session *s,
                           int32_t channel);

/**
 * Transfers a stream's descriptor to the caller, who must close the descriptor. The session no longer has that stream.
 *
 * Returns the descriptor (close-on-exec), or a code below 0: CORACLE_ENOT_FOUND where the session does not have it,
 * CORACLE_EMISUSE while another thread uses the session.
 *
 * Errors: EINVALID (channel), ENOT_FOUND (the session does not have it).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
int32_t coracle_session_take_fd(coracle_session *s, int32_t channel);

/**
 * Sets the size of the process's terminal; does nothing where it has none.
 *
 * Errors: ECONFLICT (the process has ended).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_session_resize(coracle_session *s, uint16_t rows, uint16_t cols, coracle_error **err);

/**
 * Waits for the process's end.
 *
 * The wait is for the run in which the session began, also if the container was started again before the wait; after an attach
 * that waits for a start, for the next run. Each of several waits gets the code, at once and later.
 *
 * *out_code: 0 to 255; 128 + n for a process that signal n ended.
 *
 * Errors: ECANCELLED, ETIMEOUT, ECALLBACK (op).
 *
 * Threads: any. Blocks: until the process ends, or op ends the call. Since: 0.1.
 */
coracle_status coracle_session_wait(coracle_session *s,
                                    coracle_op *op,
                                    int32_t *out_code,
                                    coracle_error **err);

/**
 * Ends a session: detaches from the process, which runs on. NULL is fine.
 *
 * Threads: any, and last. Blocks: no. Since: 0.1.
 */
void coracle_session_free(coracle_session *s);

/* == 8. Streams =============================================================================================
 *
 * A stream gives bytes or records out of the engine: a log, samples, an archive, the body of an answer.
 */

/** A record of a stream; start with CORACLE_FRAME_INIT. */
typedef struct {
  /** sizeof(coracle_frame). */
  size_t size;
  /** CORACLE_STDOUT or CORACLE_STDERR; 0 where the stream has no channels. */
  int32_t channel;
  /** Nanoseconds since 1970; 0 where the stream has no times. */
  int64_t time_ns;
  /** The bytes, without framing; valid until the next call on the stream. */
  const uint8_t *data;
  /** How many. */
  size_t len;
} coracle_frame;

/** The start value of a coracle_frame. */
#define CORACLE_FRAME_INIT { sizeof(coracle_frame), 0, 0, NULL, 0 }

/**
 * Reads up to `len` bytes: of an archive or a body as they are, of a log its lines with both channels in one.
 *
 * Returns how many bytes, 0 at the end, a code below 0 on failure. If the operation that writes the stream
 * failed, its error comes in place of the end.
 *
 * Errors: ECANCELLED, ETIMEOUT, ECALLBACK (op), EMISUSE (another thread reads), EINVALID, those of the operation that writes
 * the stream.
 *
 * Threads: one reader at a time. Blocks: until there is something, the end, or op ends the call. Since: 0.1.
 */
int64_t coracle_stream_read(coracle_stream *s,
                            void *buf,
                            size_t len,
                            coracle_op *op,
                            coracle_error **err);

/**
 * Gets the next record: a line of a log with its channel and time, or a piece of a body.
 *
 * out: a coracle_frame with its size set. Returns CORACLE_OK with *out filled, CORACLE_DONE at the end.
 *
 * Errors: as coracle_stream_read.
 *
 * Threads: one reader at a time. Blocks: until there is a record, the end, or op ends the call. Since: 0.1.
 */
coracle_status coracle_stream_next(coracle_stream *s, coracle_op *op, coracle_frame *out, coracle_error **err);

/**
 * Gets a descriptor that is readable while there may be something to read; for poll, epoll and select (level-triggered).
 *
 * Borrowed: valid until coracle_stream_free. The bytes themselves come by coracle_stream_read or coracle_stream_next.
 * Returns a code below 0 on failure.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
int32_t coracle_stream_fd(coracle_stream *s);

/**
 * Ends a stream, read to its end or not. NULL is fine.
 *
 * Threads: any, and last. Blocks: no. Since: 0.1.
 */
void coracle_stream_free(coracle_stream *s);

/* == 9. Exec ================================================================================================
 *
 * An exec instance is a further process in a running container.
 */

/**
 * Prepares a process in a running container.
 *
 * id: that of the container. body_json: the body of POST /containers/{id}/exec ("Cmd", "AttachStdout", "Tty", ...).
 * *out_id: the exec instance's id; free it with coracle_free.
 *
 * Schemas: body_json exec-create.
 *
 * Errors: ENOT_FOUND (container), ECONFLICT (the container is not running, or is paused), EINVALID (no command).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_exec_create(coracle *c,
                                   const char *id,
                                   const char *body_json,
                                   char **out_id,
                                   coracle_error **err);

/**
 * Starts a prepared process.
 *
 * io: NULL runs it detached (then out may be NULL, and *out is NULL); else its streams, of those that its body names.
 * *out: the session; end it with coracle_session_free.
 *
 * Errors: ENOT_FOUND (exec instance), ECONFLICT (started already; the container is not running, or paused), EINVALID
 * (its command is not there, or cannot run), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until the process runs. Since: 0.1.
 */
coracle_status coracle_exec_start(coracle *c,
                                  const char *id,
                                  const coracle_io *io,
                                  coracle_op *op,
                                  coracle_session **out,
                                  coracle_error **err);

/**
 * Waits for the end of an exec instance.
 *
 * *out_code: its exit code: 0 to 255; 128 + n if signal n ended it; 137 if it ended with its container. The exec instance may
 * be started after a wait began.
 *
 * Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT, ECALLBACK (op).
 *
 * Threads: any. Blocks: until the process has ended, or op ends the call. Since: 0.1.
 */
coracle_status coracle_exec_wait(coracle *c,
                                 const char *id,
                                 coracle_op *op,
                                 int32_t *out_code,
                                 coracle_error **err);

/**
 * Describes an exec instance in full.
 *
 * *out_json: the document of GET /exec/{id}/json; free it with coracle_free.
 *
 * Schemas: out_json exec.
 *
 * Errors: ENOT_FOUND.
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_exec_inspect(coracle *c, const char *id, char **out_json, coracle_error **err);

/* == 10. Logs ===============================================================================================
 *
 * The output that the engine kept of a container, also while the container runs.
 */

/**
 * Reads a container's log.
 *
 * query_json: NULL, or an object with any of "stdout", "stderr" (both where neither is given), "since" (seconds since
 * 1970, with a fraction if wanted), "tail" (a number, or "all"), "follow", "timestamps" and "details" (the time and the
 * attributes stand before each line, as in GET /containers/{id}/logs). *out: records for coracle_stream_next, which have
 * channel and time apart, too; end the stream with coracle_stream_free.
 *
 * Schemas: query_json container-logs-query.
 *
 * Errors: ENOT_FOUND, EINVALID (query_json), EUNSUPPORTED (its log driver cannot be read), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk; the stream's calls where it follows. Since: 0.1.
 */
coracle_status coracle_container_logs(coracle *c,
                                      const char *id,
                                      const char *query_json,
                                      coracle_op *op,
                                      coracle_stream **out,
                                      coracle_error **err);

/**
 * Counts the lines of a log that this stream missed so far: its bounds (max-size, max-file) deleted them before they were
 * read. Other streams answer 0. A stream that follows a log and is read more slowly than the container writes loses lines, as
 * a container never waits for its readers.
 *
 * Returns a code below 0 on failure.
 *
 * Errors: EMISUSE (another thread reads).
 *
 * Threads: one reader at a time. Blocks: no. Since: 0.1.
 */
int64_t coracle_stream_lost(coracle_stream *s);

/* == 11. Events =============================================================================================
 *
 * Everything that any program does on the root, in one order.
 */

/**
 * Follows the events of the root: of everything that any program does on it.
 *
 * query_json: NULL, or an object with any of "since", "until" (seconds since 1970, with a fraction if wanted; since
 * replays, until ends), "after" (go on right after the event with that "sequence"; wins over since), "filters" (as in
 * GET /events). *out: end it with coracle_events_free.
 *
 * No event after this call is missed silently, however late they are asked for: see coracle_events_next.
 *
 * Schemas: query_json events-query.
 *
 * Errors: EINVALID (a filter, a time).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_events_open(coracle *c, const char *query_json, coracle_events **out, coracle_error **err);

/**
 * Gets a descriptor that is readable while an event may be waiting; for poll, epoll and select (level-triggered).
 *
 * Borrowed: valid until coracle_events_free; not to be read or closed. Returns a code below 0 on failure.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
int32_t coracle_events_fd(coracle_events *e);

/**
 * Gets the next event.
 *
 * timeout_ms: how long to wait; 0 looks only, below 0 waits for ever. *out_json: the document of GET /events with
 * "sequence" (a number that rises, for "after") added; borrowed, valid until the next call on these events.
 * Returns CORACLE_OK, CORACLE_AGAIN when the time passed, CORACLE_DONE when `until` is reached.
 *
 * Schemas: out_json event.
 *
 * Errors: EUNAVAILABLE (events that were not read yet, or that follow "after", are no longer kept: once for each loss;
 * the next call goes on with the oldest event kept), EMISUSE (another thread waits here), ECANCELLED (freed
 * meanwhile).
 *
 * Threads: one at a time. Blocks: up to timeout_ms. Since: 0.1.
 */
coracle_status coracle_events_next(coracle_events *e, int64_t timeout_ms, const char **out_json, coracle_error **err);

/**
 * Ends following. A coracle_events_next that waits in another thread returns. NULL is fine.
 *
 * Threads: any, and last. Blocks: no. Since: 0.1.
 */
void coracle_events_free(coracle_events *e);

/* == 12. Images =============================================================================================
 *
 * The images of the root: looking at them, naming and removing them, archives.
 */

/**
 * Lists images, newest first.
 *
 * query_json: NULL, or an object with any of "all", "filter", "filters", "shared-size" (as in GET /images/json) and
 * "containers", which counts the containers of each image. *out_json: its document; free it with coracle_free.
 *
 * Schemas: query_json image-list-query, out_json image-list.
 *
 * Errors: EINVALID (a filter).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_image_list(coracle *c, const char *query_json, char **out_json, coracle_error **err);

/**
 * Describes one image in full.
 *
 * ref: name, id, digest, or the beginning of an id that no other image has. Every function takes such a ref. *out_json: the document of
 * GET /images/{name}/json; free it with coracle_free.
 *
 * Schemas: out_json image.
 *
 * Errors: ENOT_FOUND.
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_image_inspect(coracle *c,
                                     const char *ref,
                                     char **out_json,
                                     coracle_error **err);

/**
 * Lists the steps by which an image was made, newest first.
 *
 * *out_json: the document of GET /images/{name}/history; free it with coracle_free.
 *
 * Schemas: out_json image-history.
 *
 * Errors: ENOT_FOUND.
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_image_history(coracle *c, const char *ref, char **out_json, coracle_error **err);

/**
 * Gives an image another name.
 *
 * new_ref: repository[:tag]; the tag is "latest" where none is given.
 *
 * Errors: ENOT_FOUND, EINVALID (new_ref).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_image_tag(coracle *c, const char *ref, const char *new_ref, coracle_error **err);

/** Flag of coracle_image_remove: untag, whatever stopped container uses it. */
#define CORACLE_IMAGE_REMOVE_FORCE 1

/** Flag of coracle_image_remove: keep untagged parents. */
#define CORACLE_IMAGE_REMOVE_NO_PRUNE 2

/**
 * Removes a name of an image and, if nothing else holds the image, deletes it.
 *
 * flags: CORACLE_IMAGE_REMOVE_FORCE, CORACLE_IMAGE_REMOVE_NO_PRUNE, or 0. *out_json: the document of
 * DELETE /images/{name}; free it with coracle_free.
 *
 * Schemas: out_json image-removed.
 *
 * Errors: ENOT_FOUND, ECONFLICT (a container uses it), EINVALID (flags), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_image_remove(coracle *c,
                                    const char *ref,
                                    uint64_t flags,
                                    coracle_op *op,
                                    char **out_json,
                                    coracle_error **err);

/**
 * Removes images that nothing uses.
 *
 * filters_json: NULL, or an object of lists: "dangling" (default ["true"]: images without a name; ["false"]: all that no
 * container was made from), "until" (Unix seconds or RFC 3339), "label", "label!". *out_json: an object with
 * "ImagesDeleted" (as coracle_image_remove gives it, or null) and "SpaceReclaimed" in bytes; free it with coracle_free.
 *
 * Schemas: filters_json filters, out_json image-prune.
 *
 * Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). After an error no image was removed.
 *
 * Threads: any. Blocks: until all images were looked at, or op ends the call. Since: 0.1.
 */
coracle_status coracle_image_prune(coracle *c,
                                   const char *filters_json,
                                   coracle_op *op,
                                   char **out_json,
                                   coracle_error **err);

/**
 * Removes the caches of builds (RUN --mount=type=cache) that no step uses.
 *
 * filters_json: NULL, or an object of lists: "id", "type" ("exec.cachemount"), "until" or "unused-for" (Unix seconds, RFC 3339
 * or a duration before now: caches that were used later stay). "max-used-space", "min-free-space" and "reserved-space" are bounds
 * in bytes: the caches that were used last stay, no more than the first, so few that the file system has the
 * second free, and the third in any case. *out_json: an object with "CachesDeleted" (ids) and "SpaceReclaimed" in bytes; free it
 * with coracle_free.
 *
 * Schemas: filters_json filters, out_json build-prune.
 *
 * Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). Caches that were removed before an error stay removed.
 *
 * Threads: any. Blocks: until all caches were looked at, or op ends the call. Since: 0.1.
 */
coracle_status coracle_build_prune(coracle *c,
                                   const char *filters_json,
                                   coracle_op *op,
                                   char **out_json,
                                   coracle_error **err);

/**
 * Loads every image of an archive: docker save's, both layouts, or an OCI layout; plain or compressed.
 *
 * tar, user: the function that gives the archive. *out_json: a list of the names (or ids) that were loaded; free it with
 * coracle_free. Progress records go to op. Nothing is visible of an image before all of it is on disk.
 *
 * Schemas: out_json string-list.
 *
 * Errors: EINVALID (archive; a digest does not fit), ECALLBACK, ECANCELLED, ETIMEOUT, EIO (disk full).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the archive is in, or op ends the call. Since: 0.1.
 */
coracle_status coracle_image_load(coracle *c,
                                  coracle_read_fn tar,
                                  void *user,
                                  coracle_op *op,
                                  char **out_json,
                                  coracle_error **err);

/**
 * Writes images as an archive: docker save's, or an OCI layout.
 *
 * refs_json: a list of names, one name as a JSON string, or an object with "names" and "layout" (docker, oci). *out: the
 * archive's bytes; read them to their end, where an error shows that the archive is not whole; end it with
 * coracle_stream_free, which also breaks it off.
 *
 * Schemas: refs_json image-save.
 *
 * Errors: EINVALID (refs_json), ENOT_FOUND (an image), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk; the stream's calls. Since: 0.1.
 */
coracle_status coracle_image_save(coracle *c,
                                  const char *refs_json,
                                  coracle_op *op,
                                  coracle_stream **out,
                                  coracle_error **err);

/**
 * Makes an image from a tar of a root file system, plain or compressed.
 *
 * query_json: NULL, or an object with any of "repo", "tag", "message", "changes" (a list of build instructions), "url".
 * tar, user: the function that gives the archive; NULL if the engine is to fetch it from "url". *out_id: the image's id; free
 * it with coracle_free. Progress records go to op.
 *
 * Schemas: query_json image-import-query.
 *
 * Errors: EINVALID (archive, reference, changes), EINTERNAL (the server of "url"), ECALLBACK, ECANCELLED, ETIMEOUT, EIO
 * (disk full).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the archive is in, or op ends the call. Since: 0.1.
 */
coracle_status coracle_image_import(coracle *c,
                                    const char *query_json,
                                    coracle_read_fn tar,
                                    void *user,
                                    coracle_op *op,
                                    char **out_id,
                                    coracle_error **err);

/* == 13. Builds =============================================================================================
 *
 * An image made from a build file. The context is a tar or a directory.
 */

/**
 * Builds an image of a build file, as docker's classic builder does.
 *
 * query_json: NULL, or an object with the parameters of POST /build by their names: "t" and "cachefrom" are lists of names,
 * "buildargs" and "labels" objects, "ulimits" a list of objects, "extrahosts" and "securityopt" lists of texts; "auths" maps
 * registries to credentials; "file" is the build file itself, in place of one in the context. tar, user: the function that
 * gives the context, a tar, plain or compressed; NULL if "remote" or "file" says enough. *out_id: the image's id; free it with
 * coracle_free. Progress records go to op: "stream" holds the builder's output.
 *
 * Nothing is visible before the end, and then the image is on disk. The steps of a failed build stay for the next build.
 *
 * Schemas: query_json build.
 *
 * Errors: EINVALID (a mistake in the build file, with its line; query_json), ENOT_FOUND (a source, an image), EINTERNAL
 * (a command that failed: its exit code is the member "exitCode" of the error's detail), ECALLBACK, ECANCELLED, ETIMEOUT.
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the build is over, or op ends the call. Since: 0.1.
 */
coracle_status coracle_image_build(coracle *c,
                                   const char *query_json,
                                   coracle_read_fn tar,
                                   void *user,
                                   coracle_op *op,
                                   char **out_id,
                                   coracle_error **err);

/**
 * Builds an image from a directory of this machine, without a tar of the directory.
 *
 * dirfd: the directory, open. Files that its ".dockerignore" names are left out, and all files belong to root in the image.
 *
 * Schemas: query_json build.
 *
 * Errors: as coracle_image_build; EINVALID (dirfd is not an open directory).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the build is over, or op ends the call. Since: 0.1.
 */
coracle_status coracle_image_build_dir(coracle *c,
                                       const char *query_json,
                                       int32_t dirfd,
                                       coracle_op *op,
                                       char **out_id,
                                       coracle_error **err);

/* == 14. Registries =========================================================================================
 *
 * Images from and to a registry. A library without TLS answers CORACLE_EUNSUPPORTED here.
 */

/**
 * Pulls an image from its registry.
 *
 * ref: repository[:tag] or repository@digest; the tag is "latest" where none is given. auth_json: NULL, or the
 * credentials, an object with "username" and "password", or "identitytoken", or "registrytoken". *out_id: the image's
 * id; free it with coracle_free. Progress records go to op. Nothing is visible before all of it is on disk.
 *
 * Schemas: auth_json credentials.
 *
 * Errors: ENOT_FOUND (no such image, or no access), EUNAUTHORIZED (credentials are needed), EINVALID (ref, auth_json;
 * content whose digest is wrong), ECALLBACK, ECANCELLED, ETIMEOUT (op), EIO (disk full).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the image is here, or op ends the call. Since: 0.1.
 */
coracle_status coracle_image_pull(coracle *c,
                                  const char *ref,
                                  const char *auth_json,
                                  coracle_op *op,
                                  char **out_id,
                                  coracle_error **err);

/**
 * Pulls the image of a platform from its registry, where the name is that of a list of images.
 *
 * platform: "os[/architecture[/variant]]" or an architecture, such as "linux/arm64", "arm/v7", or the JSON document of a platform; NULL: this
 * machine's. If the list has no image of exactly this variant, the best earlier one is taken. An image of another platform is
 * stored like any other; its containers run only if the kernel can (binfmt_misc). The rest is as for coracle_image_pull.
 *
 * Schemas: auth_json credentials.
 *
 * Errors: as coracle_image_pull; EINVALID (platform), ENOT_FOUND (the list has no image of this platform).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the image is here, or op ends the call. Since: 0.1.
 */
coracle_status coracle_image_pull_platform(coracle *c,
                                           const char *ref,
                                           const char *platform,
                                           const char *auth_json,
                                           coracle_op *op,
                                           char **out_id,
                                           coracle_error **err);

/**
 * Pushes an image to the registry that its name says.
 *
 * ref: repository[:tag]; the tag is "latest" where none is given. auth_json: as for coracle_image_pull. *out_json: an
 * object with "Tag", "Digest" and "Size" of the manifest; free it with coracle_free. Progress records go to op.
 *
 * Schemas: auth_json credentials, out_json image-pushed.
 *
 * Errors: ENOT_FOUND (no such image here), EUNAUTHORIZED (credentials are needed), EFORBIDDEN (no access), EINVALID
 * (ref, auth_json), ECALLBACK, ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the image is there, or op ends the call. Since: 0.1.
 */
coracle_status coracle_image_push(coracle *c,
                                  const char *ref,
                                  const char *auth_json,
                                  coracle_op *op,
                                  char **out_json,
                                  coracle_error **err);

/**
 * Searches a registry for images: by its search if it has one, else among the names in its catalog.
 *
 * query_json: an object with "term" (what to look for; host[:port]/words asks that registry) and maybe "limit" (1 to
 * 100), "filters" ("is-official", "is-automated", "stars"). auth_json: as for coracle_image_pull. *out_json: the document
 * of GET /images/search; free it with coracle_free.
 *
 * Schemas: query_json image-search-query, auth_json credentials, out_json image-search.
 *
 * Errors: EINVALID (query_json, auth_json), EUNAUTHORIZED (credentials are needed), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until the registry answers, or op ends the call. Since: 0.1.
 */
coracle_status coracle_image_search(coracle *c,
                                    const char *query_json,
                                    const char *auth_json,
                                    coracle_op *op,
                                    char **out_json,
                                    coracle_error **err);

/**
 * Asks a registry for an image's manifest, without a pull.
 *
 * ref, auth_json: as for coracle_image_pull. *out_json: the document of GET /distribution/{name}/json: "Descriptor" (media
 * type, digest and size of the manifest, or of the list of manifests) and "Platforms"; free it with coracle_free.
 *
 * Schemas: auth_json credentials, out_json distribution.
 *
 * Errors: ENOT_FOUND (no such image, or no access), EUNAUTHORIZED (credentials are needed), EINVALID (ref, auth_json),
 * ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until the registry answers, or op ends the call. Since: 0.1.
 */
coracle_status coracle_registry_inspect(coracle *c,
                                        const char *ref,
                                        const char *auth_json,
                                        coracle_op *op,
                                        char **out_json,
                                        coracle_error **err);

/**
 * Checks credentials against a registry.
 *
 * auth_json: the credentials; "serveraddress" names the registry. *out_json: the document of POST /auth; free it
 * with coracle_free.
 *
 * Schemas: auth_json credentials, out_json auth-status.
 *
 * Errors: EUNAUTHORIZED (the registry refuses the credentials), EINVALID (auth_json), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until the registry answers, or op ends the call. Since: 0.1.
 */
coracle_status coracle_registry_auth(coracle *c,
                                     const char *auth_json,
                                     coracle_op *op,
                                     char **out_json,
                                     coracle_error **err);

/* == 15. Volumes ============================================================================================
 *
 * Directories that outlive the containers that use them.
 */

/**
 * Creates a volume. If a volume of that name is there already, the call gives that one as it is.
 *
 * body_json: NULL, or the body of POST /volumes/create: any of "Name", "Driver", "DriverOpts", "Labels". *out_id: the
 * volume's name; free it with coracle_free. *out_json (may be NULL): the volume; free it with coracle_free.
 *
 * Schemas: body_json volume-create, out_json volume.
 *
 * Errors: EINVALID (name, options), ENOT_FOUND (driver), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk; until the driver's plugin answers. Since: 0.1.
 */
coracle_status coracle_volume_create(coracle *c,
                                     const char *body_json,
                                     coracle_op *op,
                                     char **out_id,
                                     char **out_json,
                                     coracle_error **err);

/**
 * Lists volumes by name.
 *
 * query_json: NULL, or an object with "filters" (as in GET /volumes). *out_json: its document; free it with
 * coracle_free.
 *
 * Schemas: query_json volume-list-query, out_json volume-list.
 *
 * Errors: EINVALID (a filter).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_volume_list(coracle *c, const char *query_json, char **out_json, coracle_error **err);

/**
 * Describes one volume in full.
 *
 * *out_json: the document of GET /volumes/{name}; free it with coracle_free.
 *
 * Schemas: out_json volume.
 *
 * Errors: ENOT_FOUND.
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_volume_inspect(coracle *c, const char *name, char **out_json, coracle_error **err);

/**
 * Removes a volume and its content.
 *
 * Errors: ENOT_FOUND, ECONFLICT (a container, running or not, uses it), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk; until the driver's plugin answers. Since: 0.1.
 */
coracle_status coracle_volume_remove(coracle *c, const char *name, coracle_op *op, coracle_error **err);

/**
 * Removes volumes that no container uses.
 *
 * filters_json: NULL: the volumes that nobody named (their names are 64 hexadecimal digits); or an object of lists:
 * "all":["true"] also those with a name, "label" and "label!". *out_json: an object with "VolumesDeleted" (a list of names)
 * and "SpaceReclaimed" in bytes; free it with coracle_free.
 *
 * Schemas: filters_json filters, out_json volume-prune.
 *
 * Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). Objects that were removed before an error stay removed.
 *
 * Threads: any. Blocks: until all volumes were looked at, or op ends the call. Since: 0.1.
 */
coracle_status coracle_volume_prune(coracle *c,
                                    const char *filters_json,
                                    coracle_op *op,
                                    char **out_json,
                                    coracle_error **err);

/* == 16. Plugins ============================================================================================
 *
 * Plugins that the engine installs from registries, and runs as containers that lists do not show.
 */

/** Flag of coracle_plugin_disable and coracle_plugin_remove: also while the plugin is used or enabled. */
#define CORACLE_PLUGIN_FORCE 1

/**
 * Lists the installed plugins by name.
 *
 * query_json: NULL, or an object with "filters": "capability" (a kind, such as volumedriver) and "enabled". *out_json: its
 * document; free it with coracle_free.
 *
 * Schemas: query_json plugin-list-query, out_json plugin-list.
 *
 * Errors: EINVALID (a filter).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_plugin_list(coracle *c,
                                   const char *query_json,
                                   char **out_json,
                                   coracle_error **err);

/**
 * Describes one installed plugin, by its name, its id or the beginning of its id.
 *
 * *out_json: the document of GET /plugins/{name}/json; free it with coracle_free.
 *
 * Schemas: out_json plugin.
 *
 * Errors: ENOT_FOUND.
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_plugin_inspect(coracle *c, const char *name, char **out_json, coracle_error **err);

/**
 * Lists the rights on the host that a plugin of a registry needs.
 *
 * remote: repository[:tag] or repository@digest. auth_json: as for coracle_image_pull. *out_json: a list of objects with
 * "Name", "Description" and "Value"; free it with coracle_free.
 *
 * Schemas: auth_json credentials, out_json plugin-privileges.
 *
 * Errors: ENOT_FOUND (no such plugin, or no access), EUNAUTHORIZED (credentials are needed), EINVALID (remote, auth_json),
 * ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until the registry answers, or op ends the call. Since: 0.1.
 */
coracle_status coracle_plugin_privileges(coracle *c,
                                         const char *remote,
                                         const char *auth_json,
                                         coracle_op *op,
                                         char **out_json,
                                         coracle_error **err);

/**
 * Installs a plugin from a registry, disabled.
 *
 * body_json: an object with "Remote", and any of "Name" (of the installation), "Privileges" (the rights that are granted: exactly those of
 * coracle_plugin_privileges; absent: all that the plugin needs) and "Auth" (as auth_json of coracle_image_pull). *out_id: the plugin's
 * id; free it with coracle_free. Progress records go to op.
 *
 * Schemas: body_json plugin-pull.
 *
 * Errors: ENOT_FOUND (no such plugin, or no access), EUNAUTHORIZED (credentials are needed), EINVALID (body_json; the name is
 * taken; other rights are needed), ECALLBACK, ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the plugin is here, or op ends the call. Since: 0.1.
 */
coracle_status coracle_plugin_pull(coracle *c,
                                   const char *body_json,
                                   coracle_op *op,
                                   char **out_id,
                                   coracle_error **err);

/**
 * Runs a plugin, and waits until it listens.
 *
 * seconds: how long the plugin may take to listen; 0: 30 s.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the plugin is enabled), EINVALID (a mount or a device without a source), ECANCELLED, ETIMEOUT
 * (op).
 *
 * Threads: any. Blocks: until the plugin listens, or op ends the call. Since: 0.1.
 */
coracle_status coracle_plugin_enable(coracle *c,
                                     const char *name,
                                     uint32_t seconds,
                                     coracle_op *op,
                                     coracle_error **err);

/**
 * Ends a plugin.
 *
 * flags: CORACLE_PLUGIN_FORCE (also while volumes or networks use it), or 0.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the plugin is disabled, or used), EINVALID (flags), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until the plugin has ended, or op ends the call. Since: 0.1.
 */
coracle_status coracle_plugin_disable(coracle *c,
                                      const char *name,
                                      uint64_t flags,
                                      coracle_op *op,
                                      coracle_error **err);

/**
 * Removes a plugin with its files.
 *
 * flags: CORACLE_PLUGIN_FORCE (also while it is enabled, or volumes or networks use it), or 0.
 *
 * Errors: ENOT_FOUND, ECONFLICT (the plugin is enabled, or used), EINVALID (flags), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until the plugin has ended, or op ends the call. Since: 0.1.
 */
coracle_status coracle_plugin_remove(coracle *c, const char *name, uint64_t flags, coracle_op *op, coracle_error **err);

/**
 * Changes settings of a disabled plugin: all of them, or none.
 *
 * changes_json: a list of texts, each NAME[.FIELD]=VALUE.
 *
 * Schemas: changes_json strings.
 *
 * Errors: ENOT_FOUND, EINVALID (changes_json), EINTERNAL (a change that the plugin does not allow; the plugin is enabled).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_plugin_set(coracle *c,
                                  const char *name,
                                  const char *changes_json,
                                  coracle_error **err);

/**
 * Puts another version in the place of a disabled plugin. Its settings are those of the new version.
 *
 * body_json: as for coracle_plugin_pull; without "Remote" the plugin comes from where it came from before. "Name" has no effect.
 * Progress records go to op.
 *
 * Schemas: body_json plugin-pull.
 *
 * Errors: ENOT_FOUND (no such plugin, or no access), ECONFLICT (the plugin is enabled), EUNAUTHORIZED (credentials are needed),
 * EINVALID (body_json; other rights are needed), ECALLBACK, ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until the plugin is here, or op ends the call. Since: 0.1.
 */
coracle_status coracle_plugin_upgrade(coracle *c,
                                      const char *name,
                                      const char *body_json,
                                      coracle_op *op,
                                      coracle_error **err);

/* == 17. Networks ===========================================================================================
 *
 * Networks of containers, and the parts of them that the kernel has: bridges, the firewall's rules.
 */

/**
 * Creates a network.
 *
 * body_json: the body of POST /networks/create. *out_id: the network's id; free it with coracle_free. *out_json (may be
 * NULL): {"Id":..., "Warning":...}; free it with coracle_free.
 *
 * Schemas: body_json network-create, out_json network-created.
 *
 * Errors: EINVALID (a field, named), EFORBIDDEN (a reserved name, subnets that overlap others), ECONFLICT (name),
 * ENOT_FOUND (driver), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk; until the driver's plugin answers. Since: 0.1.
 */
coracle_status coracle_network_create(coracle *c,
                                      const char *body_json,
                                      coracle_op *op,
                                      char **out_id,
                                      char **out_json,
                                      coracle_error **err);

/**
 * Lists networks by name.
 *
 * query_json: NULL, or an object with "filters" (as in GET /networks). *out_json: its document; free it with
 * coracle_free.
 *
 * Schemas: query_json network-list-query, out_json network-list.
 *
 * Errors: EINVALID (a filter).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_network_list(coracle *c, const char *query_json, char **out_json, coracle_error **err);

/**
 * Describes one network in full.
 *
 * id: its name, its id, or the beginning of its id. *out_json: the document of GET /networks/{id}; free it with
 * coracle_free.
 *
 * Schemas: out_json network.
 *
 * Errors: ENOT_FOUND, EINVALID (several fit).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_network_inspect(coracle *c, const char *id, char **out_json, coracle_error **err);

/**
 * Connects a container to a network. The container may run.
 *
 * body_json: the body of POST /networks/{id}/connect: {"Container":..., "EndpointConfig":{...}}.
 *
 * Schemas: body_json network-connect.
 *
 * Errors: ENOT_FOUND, EFORBIDDEN (the container is connected already, or its network mode allows no other), EINVALID (a field,
 * named), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until the interface is there, or op ends the call. Since: 0.1.
 */
coracle_status coracle_network_connect(coracle *c,
                                       const char *id,
                                       const char *body_json,
                                       coracle_op *op,
                                       coracle_error **err);

/**
 * Disconnects a container from a network. The container may run.
 *
 * body_json: the body of POST /networks/{id}/disconnect: {"Container":..., "Force":...}.
 *
 * Schemas: body_json network-disconnect.
 *
 * Errors: ENOT_FOUND, EINTERNAL (the container is not connected), EFORBIDDEN (the host's network), EINVALID (a field, named),
 * ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: until the interface is gone, or op ends the call. Since: 0.1.
 */
coracle_status coracle_network_disconnect(coracle *c,
                                          const char *id,
                                          const char *body_json,
                                          coracle_op *op,
                                          coracle_error **err);

/**
 * Removes a network.
 *
 * Errors: ENOT_FOUND, EFORBIDDEN (the network is predefined, or running containers are on the network), ECANCELLED, ETIMEOUT
 * (op).
 *
 * Threads: any. Blocks: disk; until the driver's plugin answers. Since: 0.1.
 */
coracle_status coracle_network_remove(coracle *c,
                                      const char *id,
                                      coracle_op *op,
                                      coracle_error **err);

/**
 * Removes networks that no running container is on, except for the predefined ones.
 *
 * filters_json: NULL, or an object of lists: "until" (Unix seconds, RFC 3339 or a time before now: networks that are younger
 * stay), "label" and "label!". *out_json: an object with "NetworksDeleted" (a list of names); free it with coracle_free.
 *
 * Schemas: filters_json filters, out_json network-prune.
 *
 * Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). Objects that were removed before an error stay removed.
 *
 * Threads: any. Blocks: until all networks were looked at, or op ends the call. Since: 0.1.
 */
coracle_status coracle_network_prune(coracle *c,
                                     const char *filters_json,
                                     coracle_op *op,
                                     char **out_json,
                                     coracle_error **err);

/**
 * Removes the kernel's parts of networks without running containers: bridges; and, if no network is left, the rules of
 * the firewall and the settings of the host. The next start makes them again. For a host that ends its use of a root.
 *
 * Errors: ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_network_release(coracle *c, coracle_op *op, coracle_error **err);

/**
 * Puts back at once the parts of the networks of running containers that another program removed: rules of the firewall
 * (`nft flush ruleset` removes all), bridges. The next start and the next coracle_open do the same.
 *
 * Errors: ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_network_repair(coracle *c, coracle_op *op, coracle_error **err);

/* == 18. System and disk ====================================================================================
 *
 * The engine and its host, the root's health, copies of a root, a dockerd's content.
 */

/**
 * Describes the engine and the host, as `docker info` does: counts, drivers, kernel, warnings.
 *
 * *out_json: the document of GET /info; free it with coracle_free.
 *
 * Schemas: out_json info.
 *
 * Errors: ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_engine_info(coracle *c, coracle_op *op, char **out_json, coracle_error **err);

/**
 * Counts the bytes that images, containers and volumes take.
 *
 * query_json: NULL, or an object with "type": a list of the kinds to count ("container", "image", "volume"); without it all.
 * *out_json: an object with "LayersSize" (bytes of all layers, each counted once), "Images", "Containers", "Volumes" and
 * "BuildCache": the documents of their lists with sizes; free it with coracle_free.
 *
 * Schemas: query_json disk-usage-query, out_json disk-usage.
 *
 * Errors: EINVALID (query_json), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: for volumes as long as a walk through their files takes, or until op ends the call. Since: 0.1.
 */
coracle_status coracle_engine_disk_usage(coracle *c,
                                         const char *query_json,
                                         coracle_op *op,
                                         char **out_json,
                                         coracle_error **err);

/**
 * Counts what the root holds, and what this handle's engine did since it was opened.
 *
 * *out_json: an object with "Version", "Containers" (state to count), "Restarts", "LogLost" (lines), "Images", "LayerBytes",
 * "Operations" (a list of {"Operation", "Done", "Failed", "Seconds"}) and "EventListeners"; free it with coracle_free. GET
 * /metrics has the same in the form that Prometheus reads.
 *
 * Schemas: out_json metrics.
 *
 * Errors: none but those of every function.
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_engine_metrics(coracle *c,
                                      char **out_json,
                                      coracle_error **err);

/**
 * Gets the versions of the library, the API and the kernel.
 *
 * *out_json: the document of GET /version; free it with coracle_free.
 *
 * Schemas: out_json version.
 *
 * Errors: none but those of every function.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_engine_version(coracle *c, char **out_json, coracle_error **err);

/**
 * Replaces the labels of this engine, and reports to all followers of the root's events that settings were read again: the
 * event "daemon", "reload", with the labels, and the other settings that the host has read.
 *
 * labels_json: an array of texts, "key=value", in place of the labels before. settings_json: NULL, or an object of strings.
 *
 * Schemas: labels_json strings, settings_json string-map.
 *
 * Errors: EINVALID (a document), EIO (the journal cannot be written).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_engine_reload(coracle *c,
                                     const char *labels_json,
                                     const char *settings_json,
                                     coracle_error **err);

/**
 * Verifies every layer and configuration of the store, and repairs damage if the caller asks for it.
 *
 * query_json: NULL, or an object with any of "repair" (default false) and "auths" (an object of registry to
 * credentials as for coracle_image_pull). *out_json: an object with "Layers" and "Images" (how many) and "Damage": a list
 * of objects with "Part" (layer, image, database), "Id", "Images", "Reason", "Repaired", "Unrepaired"; free it with
 * coracle_free. A call that finds damage succeeds, too. Progress records go to op.
 *
 * Schemas: query_json root-verify-query, out_json root-verify.
 *
 * Errors: EINVALID (query_json), ECALLBACK, ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until all was read, or op ends the call. Since: 0.1.
 */
coracle_status coracle_root_verify(coracle *c,
                                   const char *query_json,
                                   coracle_op *op,
                                   char **out_json,
                                   coracle_error **err);

/**
 * Lists the files that removals through this engine, and its open, could not remove: an immutable file, a mount in the way.
 *
 * *out_json: an array of {"Path": ..., "Reason": ...}; free it with coracle_free. The container,
 * volume or layer that had the files is gone. Every open tries again, and so does coracle_root_sweep.
 *
 * Schemas: out_json leftovers.
 *
 * Errors: none but those of every function.
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_root_leftovers(coracle *c,
                                      char **out_json,
                                      coracle_error **err);

/**
 * Removes the files that programs left in the root when they ended, and that removals left, as each open does.
 *
 * *out_json: the files that stay, as of coracle_root_leftovers; free it with coracle_free.
 *
 * Schemas: out_json leftovers.
 *
 * Errors: ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: disk. Since: 0.1.
 */
coracle_status coracle_root_sweep(coracle *c, coracle_op *op, char **out_json, coracle_error **err);

/**
 * Copies the whole root, while containers run, into a directory that is absent or empty: a root of its own, in which no
 * container runs.
 *
 * dir: path, any bytes. query_json: NULL, or an object with "pause" (default false: each file is copied in the state in
 * which the copy finds it; true: each container is frozen while its files are copied). *out_json: an object with
 * "Images", "Layers", "Files", "Bytes" (copied), "Shared" (bytes that both share), "Volumes" (names), "Containers" (a list of
 * {"Id", "Name", "Ran"}), and "Left": a list of {"Kind", "Name", "Reason"} of the parts that the copy does not have; free it
 * with coracle_free. Progress records go to op. A copy that fails leaves nothing; one whose program is killed leaves a
 * directory that no open takes for a root.
 *
 * Schemas: query_json root-copy-query, out_json root-copy.
 *
 * Errors: EINVALID (query_json; the directory lies in the root), ECONFLICT (the directory holds something), ECALLBACK,
 * ECANCELLED, ETIMEOUT, EIO (disk full).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until all is copied, or op ends the call. Since: 0.1.
 */
coracle_status coracle_root_copy(coracle *c,
                                 const char *dir,
                                 const char *query_json,
                                 coracle_op *op,
                                 char **out_json,
                                 coracle_error **err);

/**
 * Imports the content of a dockerd, images, volumes of the driver local and stopped containers: out of its directory, while
 * no dockerd runs on it, or by its socket.
 *
 * query_json: NULL, or an object with any of "directory" (default /var/lib/docker), "socket" (a path, in place of a
 * directory), "names" (a list of names and ids; default all). *out_json: an object with "Taken", a list of {"Kind",
 * "Name", "Id", "WasHere"}, and "Left", a list of {"Kind", "Name", "Reason"} of objects that were not taken, or in a part;
 * free it with coracle_free. Progress records go to op. Ids of images stay; objects that are in the root already stay as they
 * are.
 *
 * Schemas: query_json docker-import-query, out_json docker-import.
 *
 * Errors: EINVALID (query_json), ENOT_FOUND (no such directory, a name without an object), ECONFLICT (a dockerd runs
 * on the directory), ECALLBACK, ECANCELLED, ETIMEOUT (op), EIO (no such socket).
 *
 * Threads: any; the callbacks come on the calling thread. Blocks: until all is taken, or op ends the call. Since: 0.1.
 */
coracle_status coracle_root_import_docker(coracle *c,
                                          const char *query_json,
                                          coracle_op *op,
                                          char **out_json,
                                          coracle_error **err);

/* == 19. HTTP ===============================================================================================
 *
 * The HTTP API without and with a socket: one request, a connection, a server.
 */

/**
 * Answers one request of the HTTP API in process: whatever the engine can do, also without a function of its own here.
 *
 * method: "GET", ... target: path and query, percent-encoded, such as "/v1.24/containers/json?all=1". headers_json:
 * NULL, or an object of strings. body, len: the request's body; NULL and 0 for none. *out_status (may be NULL): the
 * answer's status. *out: the answer's body; end it with coracle_stream_free. An HTTP status that reports a failure
 * is an answer and no error here; the body has the message.
 *
 * The answer to an attach or exec start is the process's connection, in the frames of the HTTP API: bytes that the caller
 * writes to the descriptor of coracle_stream_fd go to the process's stdin. Of requests with CORACLE_OP_NONBLOCK 12 run at a
 * time; a request that waits for a container is better made by coracle_container_wait, which takes no thread.
 *
 * Schemas: headers_json string-map.
 *
 * Errors: EINVALID (an argument), ECANCELLED, ETIMEOUT (op), EIO (no descriptor is left).
 *
 * Threads: any. Blocks: until the answer begins, or op ends the call. Since: 0.1.
 */
coracle_status coracle_http_request(coracle *c,
                                    const char *method,
                                    const char *target,
                                    const char *headers_json,
                                    const void *body,
                                    size_t len,
                                    coracle_op *op,
                                    int32_t *out_status,
                                    coracle_stream **out,
                                    coracle_error **err);

/**
 * Opens a private connection that speaks the HTTP API, for clients with protocol code of their own. There is no listening
 * socket, no path and no port.
 *
 * *out_fd: a connected stream socket (close-on-exec), the caller's to close, which ends it; -1 on failure. It is served
 * by a thread of the library.
 *
 * Errors: EIO (no descriptor is left).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_http_connect(coracle *c,
                                    int32_t *out_fd,
                                    coracle_error **err);

/**
 * Serves the HTTP API to others, on a thread of the library.
 *
 * options_json: NULL, or an object with any of "Addresses" (texts: "unix:///path", made with mode 0660, or
 * "tcp://IP:PORT"), "InsecureTcp" (serve TCP, without TLS: each client that reaches the port is root here) and "HostNames" (names
 * that requests over TCP may give as Host, besides addresses and localhost). fds, fd_count: sockets that listen already,
 * Unix or TCP, as systemd passes them; the library takes duplicates, the caller's stay the caller's. *out: the server; end it
 * with coracle_http_server_free. The engine stays open as long as the server serves.
 *
 * Schemas: options_json http-serve-options.
 *
 * Errors: EINVALID (no address and no socket, a descriptor that does not listen, TCP without "InsecureTcp"), ECONFLICT
 * (a server listens there already), EIO (an address cannot be used).
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_http_serve(coracle *c,
                                  const char *options_json,
                                  const int32_t *fds,
                                  size_t fd_count,
                                  coracle_http_server **out,
                                  coracle_error **err);

/**
 * Lists the addresses of a server, with the ports that were chosen.
 *
 * *out_json: an array of texts, the sockets that were handed over first; free it with coracle_free.
 *
 * Schemas: out_json string-list.
 *
 * Errors: none but those of every function.
 *
 * Threads: any. Blocks: no. Since: 0.1.
 */
coracle_status coracle_http_server_addresses(coracle_http_server *s, char **out_json, coracle_error **err);

/**
 * Ends serving. Nothing is accepted any more and idle connections are closed; answers under way have grace_ms to come to
 * their end; the rest (streams, attached terminals) is cut then. A second call finds the server ended.
 *
 * Errors: EINVALID (grace_ms is below 0), ECANCELLED, ETIMEOUT (op).
 *
 * Threads: any. Blocks: up to grace_ms and some seconds more. Since: 0.1.
 */
coracle_status coracle_http_server_shutdown(coracle_http_server *s,
                                            int64_t grace_ms,
                                            coracle_op *op,
                                            coracle_error **err);

/**
 * Ends a server and its handle, without grace. NULL is fine.
 *
 * Threads: any, and last. Blocks: until its connections are closed. Since: 0.1.
 */
void coracle_http_server_free(coracle_http_server *s);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__) && __GNUC__ >= 4
#pragma GCC visibility pop
#endif

#endif
