/*
 * The host is left as it was: before and after every function of the library, everything that a program can see of
 * itself is noted and compared. The program is a hard one: many threads, handlers of its own for SIGCHLD and a ticking
 * SIGALRM (without SA_RESTART), an odd directory and umask, few descriptors, a child and an unreaped child of its own,
 * a record lock.
 *
 *   hygiene ROOT RUN IMAGE.tar THREADS FUNCTIONS [closed] [ignored] [big] [memory]
 *
 * FUNCTIONS is a file with the names of all that the library gives out, one a line: each must be watched here.
 * closed: there is no standard input, output, error, and the directory is one that was removed. ignored: SIGCHLD and
 * SIGPIPE are ignored. big: 2 GiB of memory have tables of pages, and a start copies none. memory: every function is
 * called again and again, and the memory that was asked for and not given back does not grow.
 */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

enum { MOST_THREADS = 64 };
static int thread_count;
static volatile pid_t host_threads[MOST_THREADS];
static volatile int ending;
static volatile sig_atomic_t children_seen, alarms_seen, stray_alarms;
static int closed, ignored, big, memory;
static pid_t living_child, ended_child;

/* ---- the host ---- */

static int is_host_thread(pid_t tid) {
    for (int i = 0; i < thread_count; i++)
        if (host_threads[i] == tid) return 1;
    return 0;
}

static void on_child(int signal) {
    (void)signal;
    children_seen++;
}

static void on_alarm(int signal) {
    (void)signal;
    alarms_seen++;
    if (!is_host_thread((pid_t)syscall(SYS_gettid))) stray_alarms++;
}

/* A thread that is never quite idle. */
static void *busy(void *place) {
    *(volatile pid_t *)place = (pid_t)syscall(SYS_gettid);
    while (!ending) {
        char *block = malloc(1000 + (size_t)rand() % 5000);
        block[10] = 1;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
        free(block);
    }
    return NULL;
}

/* ---- what it can see of itself ---- */

struct text {
    char *bytes;
    size_t used, room;
};

static void add(struct text *text, const char *format, ...) {
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof line) length = sizeof line - 1;
    if (text->used + (size_t)length + 2 > text->room) {
        text->room = (text->used + (size_t)length + 2) * 2;
        text->bytes = realloc(text->bytes, text->room);
    }
    memcpy(text->bytes + text->used, line, (size_t)length);
    text->used += (size_t)length;
    text->bytes[text->used++] = '\n';
    text->bytes[text->used] = 0;
}

static char *slurp(const char *path) {
    static char bytes[1 << 18];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t count = 1;
    while (fd >= 0 && used < sizeof bytes - 1 && (count = read(fd, bytes + used, sizeof bytes - 1 - used)) != 0)
        if (count > 0) used += (size_t)count;
        else if (errno != EINTR) break;
    if (fd >= 0) close(fd);
    bytes[used] = 0;
    return bytes;
}

/* Lines of a file but those that begin with one of these words (NULL: all), each after `name`. */
static void add_lines(struct text *text, const char *name, const char *path, const char *const *words) {
    char *save = NULL;
    for (char *line = strtok_r(slurp(path), "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int wanted = 1;
        for (int i = 0; words && words[i]; i++) wanted &= !!strncmp(line, words[i], strlen(words[i]));
        if (wanted) add(text, "%s %s", name, line);
    }
}

static int by_number(const struct dirent **a, const struct dirent **b) { return atoi((*a)->d_name) - atoi((*b)->d_name); }
static int no_dots(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void add_links(struct text *text, const char *name, const char *directory) {
    struct dirent **entries;
    int count = scandir(directory, &entries, no_dots, alphasort);
    for (int i = 0; i < count; i++) {
        char path[512], target[512];
        snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length >= 0) {
            target[length] = 0;
            add(text, "%s %s %s", name, entries[i]->d_name, target);
        }
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

static void add_descriptors(struct text *text) {
    struct dirent **entries;
    int count = scandir("/proc/self/fd", &entries, no_dots, by_number);
    for (int i = 0; i < count; i++) {
        char path[64], target[512];
        int fd = atoi(entries[i]->d_name), flags = fcntl(fd, F_GETFD);
        free(entries[i]);
        /* The one that scandir itself had is gone by now. */
        if (flags < 0) continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = 0;
        add(text, "descriptor %d %s %x %s", fd, flags & FD_CLOEXEC ? "cloexec" : "INHERITED", (unsigned)fcntl(fd, F_GETFL), target);
    }
    if (count >= 0) free(entries);
}

static void add_threads(struct text *text) {
    /* Lines that change by themselves. */
    static const char *const moving[] = {"State:",   "FDSize:", "Vm",      "Rss",      "Hugetlb", "Threads:", "SigQ:",
                                         "SigPnd:",  "ShdPnd:", "Ngid:",   "voluntary", "nonvoluntary", NULL};
    struct dirent **entries;
    int count = scandir("/proc/self/task", &entries, no_dots, by_number);
    for (int i = 0; i < count; i++) {
        char path[128], name[64];
        pid_t tid = (pid_t)atoi(entries[i]->d_name);
        free(entries[i]);
        snprintf(name, sizeof name, is_host_thread(tid) ? "thread %d" : "foreign thread", tid);
        snprintf(path, sizeof path, "/proc/self/task/%d/children", tid);
        const char *children = slurp(path);
        if (*children) add(text, "%s children %s", name, children);
        if (!is_host_thread(tid)) {
            add(text, "%s", name);
            continue;
        }
        snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
        add_lines(text, name, path, moving);
        snprintf(path, sizeof path, "/proc/self/task/%d/ns", tid);
        add_links(text, name, path);
        snprintf(path, sizeof path, "/proc/self/task/%d/cgroup", tid);
        add_lines(text, name, path, NULL);
        add(text, "%s nice %d, scheduler %d, input and output %ld", name, getpriority(PRIO_PROCESS, (id_t)tid),
            sched_getscheduler(tid), syscall(SYS_ioprio_get, 1, tid));
    }
    if (count >= 0) free(entries);
}

/* The kernel's record of a signal; the C library hides two of them. */
struct kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

static struct text look(void) {
    struct text text = {NULL, 0, 0};
    for (int signal = 1; signal <= 64; signal++) {
        struct kernel_action action;
        memset(&action, 0, sizeof action);
        syscall(SYS_rt_sigaction, signal, NULL, &action, 8);
        add(&text, "signal %d %p %lx %lx", signal, action.handler, action.flags, action.mask);
    }
    static const char *const files[] = {"limits", "oom_score_adj", "timerslack_ns", "personality", "loginuid", "coredump_filter",
                                        "uid_map", "setgroups", "gid_map", "cgroup", "timers",
                                        "autogroup", "sched_policy", "mountinfo", "patch_state"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/%s", files[i]);
        add_lines(&text, files[i], path, NULL);
    }
    static const char *const links[] = {"/proc/self/cwd", "/proc/self/root", "/proc/self/exe"};
    char place[4096];
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        ssize_t length = readlink(links[i], place, sizeof place - 1);
        place[length < 0 ? 0 : length] = 0;
        add(&text, "%s %s", links[i], place);
    }
    mode_t mask = umask(0);
    umask(mask);
    add(&text, "umask %o", (unsigned)mask);
    for (char **variable = environ; *variable; variable++) add(&text, "environment %p %s", (void *)*variable, *variable);
    add(&text, "locale %s", setlocale(LC_ALL, NULL));
    for (int which = 0; which < 3; which++) {
        struct itimerval timer;
        getitimer(which, &timer);
        add(&text, "timer %d %ld.%06ld", which, (long)timer.it_interval.tv_sec, (long)timer.it_interval.tv_usec);
    }
    static const int asked[] = {PR_GET_DUMPABLE, PR_GET_KEEPCAPS, PR_GET_SECUREBITS, PR_GET_NO_NEW_PRIVS, PR_GET_TIMERSLACK, PR_GET_THP_DISABLE,
                                PR_MCE_KILL_GET, PR_GET_TIMING};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) add(&text, "prctl %d %d", asked[i], prctl(asked[i], 0, 0, 0, 0));
    int value = -1;
    prctl(PR_GET_CHILD_SUBREAPER, &value, 0, 0, 0);
    add(&text, "subreaper %d", value);
    prctl(PR_GET_PDEATHSIG, &value, 0, 0, 0);
    add(&text, "death signal %d", value);
    prctl(PR_GET_TSC, &value, 0, 0, 0);
    add(&text, "time stamps %d", value);
    stack_t stack;
    sigaltstack(NULL, &stack);
    add(&text, "stack of signals %p %zu %x", stack.ss_sp, stack.ss_size, (unsigned)stack.ss_flags);
    for (long ring = -1; ring >= -5; ring--) add(&text, "keyring %ld %ld", ring, syscall(SYS_keyctl, 0 /* GET_KEYRING_ID */, ring, 0));
    add(&text, "scheduler %d, session %d, group %d", sched_getscheduler(0), (int)getsid(0), (int)getpgrp());
    char own[32], *save = NULL;
    snprintf(own, sizeof own, " %d ", (int)getpid());
    for (char *line = strtok_r(slurp("/proc/locks"), "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (strstr(line, own)) add(&text, "lock%s", line + strcspn(line, ":") + 1);
    siginfo_t info = {0};
    int waited = waitid(P_ALL, 0, &info, WNOHANG | WNOWAIT | WEXITED | __WALL);
    add(&text, "to wait for: %d %d", waited, (int)info.si_pid);
    add(&text, "children seen %d", (int)children_seen);
    add_descriptors(&text);
    add_threads(&text);
    return text;
}

/* ---- comparing ---- */

/* A function that gives a handle may change these: descriptors that are not inherited, and threads of the library. */
static int may_be_held(const char *line) {
    return !strncmp(line, "foreign thread", 14) || !strncmp(line, "lock", 4) || (!strncmp(line, "descriptor", 10) && strstr(line, " cloexec "));
}

/* Whether this line is one of the text's. */
static int stands_in(const struct text *text, const char *line) {
    size_t length = strlen(line);
    for (const char *at = text->bytes; at && (at = strstr(at, line)) != NULL; at++)
        if ((at == text->bytes || at[-1] == '\n') && at[length] == '\n') return 1;
    return 0;
}

static int may_not(const char *line) { return (void)line, 0; }

/* Before the library was used; before a call. */
static struct text at_first, before;

/* Leftovers of a call (a thread that ends, with its descriptors) may go during the next one. The host had none. */
static int may_be_gone(const char *line) { return may_be_held(line) && !stands_in(&at_first, line); }

/* The number of lines of `a` that `b` has not, but for those that `may` differ; they are told where `tell`. */
static int missing(const struct text *a, const struct text *b, int (*may)(const char *), const char *sign, int tell) {
    int lines = 0;
    if (a->used == b->used && !memcmp(a->bytes, b->bytes, a->used)) return 0;
    char *copy = strdup(a->bytes), *save = NULL;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (stands_in(b, line) || may(line)) continue;
        lines++;
        if (tell) dprintf(report_fd, "    %s %s\n", sign, line);
    }
    free(copy);
    return lines;
}

/* The number of lines that came and went; they are told where `tell`. */
static int differences(const struct text *after, int holds, int tell) {
    return missing(&before, after, holds ? may_be_held : may_be_gone, "-", tell) +
           missing(after, &before, holds ? may_be_held : may_not, "+", tell);
}

/* Whether a thread that is not the host's has something to do: on a busy machine it may stand in line for a while. */
static int foreign_thread_runs(void) {
    struct dirent **entries;
    int runs = 0, count = scandir("/proc/self/task", &entries, no_dots, by_number);
    for (int i = 0; i < count; i++) {
        char path[128];
        pid_t tid = (pid_t)atoi(entries[i]->d_name);
        free(entries[i]);
        if (is_host_thread(tid)) continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        const char *state = strrchr(slurp(path), ')');
        runs |= state && state[1] == ' ' && state[2] != 'S';
    }
    if (count >= 0) free(entries);
    return runs;
}

/* A look that finds the same a second time. A thread of the last call may be on its way out: where there is one, it is
 * watched for a while. */
static struct text stable_look(void) {
    struct text text = look();
    for (int i = 0, same = 0; i < 2000 && same < (strstr(text.bytes, "\nforeign thread") ? 10 : 1); i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        struct text again = look();
        int rests = again.used == text.used && !memcmp(again.bytes, text.bytes, again.used) && !foreign_thread_runs();
        same = rests ? same + 1 : 0;
        free(text.bytes);
        text = again;
    }
    return text;
}

static void begin(void) {
    if (!memory) before = stable_look();
}

/* ---- what was watched ---- */

static char watched[65536] = " ";

/* Notes each function that a call names. */
static void watch(const char *call) {
    while ((call = strstr(call, "coracle_")) != NULL) {
        size_t length = strspn(call, "abcdefghijklmnopqrstuvwxyz0123456789_"), used = strlen(watched);
        if (used + length + 2 < sizeof watched) snprintf(watched + used, sizeof watched - used, "%.*s ", (int)length, call);
        call += length;
    }
}

/* Every function that the library gives out was. */
static void all_were_watched(const char *functions) {
    char wanted[128], *save = NULL;
    for (char *line = strtok_r(slurp(functions), "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        snprintf(wanted, sizeof wanted, " %s ", line);
        CHECK(strstr(watched, wanted) != NULL, line);
    }
}

/* Compares; what takes a moment to go (a thread that ends) gets two minutes. */
static void end(const char *what, int holds) {
    int changed = 1;
    struct timespec now, until;
    watch(what);
    if (memory) return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 120;
    struct text after = look();
    for (;;) {
        changed = differences(&after, holds, 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!changed || now.tv_sec > until.tv_sec) break;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
        free(after.bytes);
        after = look();
    }
    if (changed) {
        failed++;
        dprintf(report_fd, "the host is not as it was after %s:\n", what);
        differences(&after, holds, 1);
    } else {
        passed++;
    }
    free(before.bytes);
    free(after.bytes);
}

/* A call that leaves nothing. */
#define LEAVES(call) (begin(), (void)(call), end(#call, 0))
/* A call that gives a handle. */
#define HOLDS(call) (begin(), (void)(call), end(#call, 1))
#define FREE(text) (coracle_free(text), (text) = NULL)

/* ---- every function ---- */

static int64_t read_zeros(void *user, void *buffer, size_t length) {
    int *left = user;
    size_t count = (size_t)*left < length ? (size_t)*left : length;
    memset(buffer, 0, count);
    *left -= (int)count;
    return (int64_t)count;
}
static int32_t on_progress(void *user, const char *record) { return (void)user, (void)record, 0; }
static void on_log(void *user, int32_t level, const char *target, const char *text) {
    (void)user, (void)level, (void)target, (void)text;
}

static void library(void) {
    LEAVES(coracle_version());
    LEAVES(coracle_version_string());
    LEAVES(coracle_build_info());
    LEAVES(coracle_has_feature("exec"));
    LEAVES(coracle_status_name(CORACLE_EIO));
    LEAVES(coracle_free(NULL));
    LEAVES(coracle_read_fd((void *)(intptr_t)-1, &(char){0}, 1));
    LEAVES(coracle_set_log(CORACLE_LOG_DEBUG, on_log, NULL, NULL, &err));
}

static void errors(coracle *engine) {
    LEAVES(coracle_container_inspect(engine, "none", 0, &(char *){NULL}, &err));
    LEAVES(coracle_error_code(err));
    LEAVES(coracle_error_http_status(err));
    LEAVES(coracle_error_errno(err));
    LEAVES(coracle_error_area(err));
    LEAVES(coracle_error_message(err));
    LEAVES(coracle_error_detail(err));
    LEAVES(coracle_error_free(err));
    err = NULL;
}

static void operations(coracle *engine) {
    coracle_op *op = NULL, *plain = NULL;
    coracle_result result = CORACLE_RESULT_INIT;
    HOLDS(OK(coracle_op_new(0, &plain, &err)));
    HOLDS(OK(coracle_op_new(CORACLE_OP_NONBLOCK, &op, &err)));
    LEAVES(coracle_op_set_timeout(op, LONG));
    HOLDS(STATUS(CORACLE_AGAIN, coracle_engine_info(engine, op, NULL, &err)));
    OK(finish(op, &result));
    FREE(result.json);
    LEAVES(coracle_op_fd(op));
    LEAVES(coracle_op_result(op, &result, NULL));
    LEAVES(coracle_op_set_progress(plain, on_progress, NULL, NULL, 10));
    LEAVES(coracle_op_cancel(op));
    HOLDS(coracle_op_free(op));
    HOLDS(coracle_op_free(plain));
}

/* The registry of tests/c/with-registry, by a name that is to be looked up. */
static void registry(coracle *engine, const char *image) {
    static const char remote[] = "localhost:5000/clean:1";
    char *json = NULL;
    OK(coracle_image_tag(engine, image, remote, &err));
    LEAVES(OK(coracle_image_push(engine, remote, NULL, NULL, &json, &err)));
    FREE(json);
    OK(coracle_image_remove(engine, remote, 0, NULL, &json, &err));
    FREE(json);
    OK(coracle_image_remove(engine, image, CORACLE_IMAGE_REMOVE_FORCE, NULL, &json, &err));
    FREE(json);
    LEAVES(OK(coracle_image_pull(engine, remote, NULL, NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_image_pull_platform(engine, remote, "linux/riscv64", NULL, NULL, &json, &err)));
    FREE(json);
    OK(coracle_image_tag(engine, remote, image, &err));
    OK(coracle_image_remove(engine, remote, 0, NULL, &json, &err));
    FREE(json);
    LEAVES(OK(coracle_registry_auth(engine, "{\"serveraddress\":\"localhost:5000\",\"username\":\"a\",\"password\":\"b\"}", NULL, &json, &err)));
    FREE(json);
}

static void images(coracle *engine, const char *archive, char **name) {
    char *json = NULL, piece[65536];
    int left = 10240, file = open(archive, O_RDONLY | O_CLOEXEC);
    coracle_stream *stream = NULL;
    coracle_frame frame = CORACLE_FRAME_INIT;
    LEAVES(OK(coracle_image_load(engine, read_file, &file, NULL, &json, &err)));
    close(file);
    FREE(json);
    *name = load_image(engine, archive);
    LEAVES(coracle_image_import(engine, "{\"repo\":\"empty\"}", read_zeros, &left, NULL, &json, NULL));
    FREE(json);
    const char *build =
        "{\"file\":\"FROM busybox\\nENV a=b\\nRUN true\\nWORKDIR /w\",\"networkmode\":\"none\",\"nocache\":true}";
    char *id = NULL, context[] = "/tmp/coracle-context-XXXXXX";
    /* The first start of an engine: the monitor program is kept. */
    HOLDS(OK(coracle_image_build(engine, build, NULL, NULL, NULL, &id, &err)));
    OK(coracle_image_remove(engine, id, 0, NULL, &json, &err));
    FREE(json);
    FREE(id);
    CHECK(mkdtemp(context) != NULL, "a directory");
    file = open(context, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    LEAVES(OK(coracle_image_build_dir(engine, "{\"file\":\"FROM busybox\\nENV c=d\"}", file, NULL, &id, &err)));
    close(file);
    rmdir(context);
    OK(coracle_image_remove(engine, id, 0, NULL, &json, &err));
    FREE(json);
    FREE(id);
    LEAVES(OK(coracle_image_list(engine, NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_image_inspect(engine, *name, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_image_history(engine, *name, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_image_tag(engine, *name, "again:1", &err)));
    LEAVES(OK(coracle_network_list(engine, NULL, &json, &err)));
    LEAVES(coracle_free(json));
    LEAVES(OK(coracle_network_inspect(engine, "bridge", &json, &err)));
    LEAVES(coracle_free(json));
    LEAVES(STATUS(CORACLE_EFORBIDDEN, coracle_network_create(engine, "{\"Name\":\"bridge\"}", NULL, &json, NULL, &err)));
    coracle_error_free(err), err = NULL;
    LEAVES(STATUS(CORACLE_EFORBIDDEN, coracle_network_remove(engine, "bridge", NULL, &err)));
    coracle_error_free(err), err = NULL;
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_network_connect(engine, "bridge", "{\"Container\":\"nobody\"}", NULL, &err)));
    coracle_error_free(err), err = NULL;
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_network_disconnect(engine, "bridge", "{\"Container\":\"nobody\"}", NULL, &err)));
    coracle_error_free(err), err = NULL;
    LEAVES(STATUS(CORACLE_EINTERNAL, coracle_image_pull(engine, "127.0.0.1:1/x", NULL, NULL, &json, &err)));
    coracle_error_free(err), err = NULL;
    LEAVES(STATUS(CORACLE_EINVALID, coracle_image_pull_platform(engine, "127.0.0.1:1/x", "linux/a b", NULL, NULL, &json, &err)));
    coracle_error_free(err), err = NULL;
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_image_push(engine, "127.0.0.1:1/x", NULL, NULL, &json, &err)));
    coracle_error_free(err), err = NULL;
    LEAVES(STATUS(CORACLE_EINTERNAL, coracle_registry_auth(engine, "{\"serveraddress\":\"127.0.0.1:1\"}", NULL, &json, &err)));
    coracle_error_free(err), err = NULL;
    LEAVES(STATUS(CORACLE_EINTERNAL, coracle_image_search(engine, "{\"term\":\"127.0.0.1:1/x\"}", NULL, NULL, &json, &err)));
    coracle_error_free(err), err = NULL;
    LEAVES(STATUS(CORACLE_EINTERNAL, coracle_registry_inspect(engine, "127.0.0.1:1/x", NULL, NULL, &json, &err)));
    coracle_error_free(err), err = NULL;
    registry(engine, *name);
    LEAVES(OK(coracle_image_prune(engine, NULL, NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_build_prune(engine, "{\"id\":[\"nobody\"]}", NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_container_prune(engine, "{\"label\":[\"nobody\"]}", NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_volume_prune(engine, "{\"label\":[\"nobody\"]}", NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_network_prune(engine, "{\"label\":[\"nobody\"]}", NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_engine_disk_usage(engine, NULL, NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_root_verify(engine, NULL, NULL, &json, &err)));
    FREE(json);
    HOLDS(OK(coracle_image_save(engine, "\"again:1\"", NULL, &stream, &err)));
    LEAVES(coracle_stream_fd(stream));
    HOLDS(CHECK(coracle_stream_read(stream, piece, 1000, NULL, &err) > 0, ""));
    HOLDS(OK(coracle_stream_next(stream, NULL, &frame, &err)));
    HOLDS(CHECK(coracle_stream_lost(stream) == 0, ""));
    HOLDS(coracle_stream_free(stream));
    LEAVES(OK(coracle_image_remove(engine, "again:1", 0, NULL, &json, &err)));
    FREE(json);
}

/* A running container's files, and volumes. */
static void files(coracle *engine, const char *id) {
    char piece[65536], *json = NULL;
    coracle_stream *stream = NULL;
    LEAVES(OK(coracle_container_stat_path(engine, id, "/bin", NULL, &json, &err)));
    FREE(json);
    HOLDS(OK(coracle_container_get_archive(engine, id, "/etc", NULL, &stream, &json, &err)));
    FREE(json);
    HOLDS(CHECK(coracle_stream_read(stream, piece, 1000, NULL, &err) > 0, ""));
    HOLDS(coracle_stream_free(stream));
    int left = 1024;
    LEAVES(OK(coracle_container_put_archive(engine, id, "/tmp", NULL, read_zeros, &left, NULL, &err)));
    HOLDS(OK(coracle_container_export(engine, id, NULL, &stream, &err)));
    HOLDS(CHECK(coracle_stream_read(stream, piece, sizeof piece, NULL, &err) > 0, ""));
    HOLDS(coracle_stream_free(stream));
    LEAVES(OK(coracle_container_changes(engine, id, NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_container_commit(engine, id, "{\"pause\":false}", NULL, NULL, &json, &err)));
    char *removed = NULL;
    OK(coracle_image_remove(engine, json, 0, NULL, &removed, &err));
    FREE(removed);
    FREE(json);
    LEAVES(OK(coracle_volume_create(engine, "{\"Name\":\"clean\"}", NULL, &json, NULL, &err)));
    FREE(json);
    LEAVES(OK(coracle_volume_inspect(engine, "clean", &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_volume_list(engine, NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_volume_remove(engine, "clean", NULL, &err)));
    LEAVES(OK(coracle_plugin_list(engine, NULL, &json, &err)));
    FREE(json);
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_plugin_inspect(engine, "none", &json, &err)));
    LEAVES(STATUS(CORACLE_EINVALID, coracle_plugin_privileges(engine, "BAD", NULL, NULL, &json, &err)));
    LEAVES(STATUS(CORACLE_EINVALID, coracle_plugin_pull(engine, "{\"Remote\":\"BAD\"}", NULL, &json, &err)));
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_plugin_enable(engine, "none", 1, NULL, &err)));
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_plugin_disable(engine, "none", CORACLE_PLUGIN_FORCE, NULL, &err)));
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_plugin_remove(engine, "none", 0, NULL, &err)));
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_plugin_set(engine, "none", "[]", &err)));
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_plugin_upgrade(engine, "none", NULL, NULL, &err)));
    LEAVES(OK(coracle_host_report("/var/lib/coracle", NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_engine_metrics(engine, &json, &err)));
    FREE(json);
    int32_t lease = -1;
    LEAVES((OK(coracle_lease_hold(engine, "clean", &lease, &err)), close(lease)));
}

static void containers(coracle *engine, const char *image) {
    static const char script[] = "trap 'exit 0' TERM; echo ready; read line; echo $line; while :; do sleep 0.05; done";
    char id[65], piece[4096], *json = NULL, *exec = NULL;
    const char *text = body(image, script, "\"OpenStdin\":true,\"Tty\":false,");
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    coracle_stream *stream = NULL;
    coracle_events *events = NULL;
    const char *event = NULL;
    int32_t code = -1, fd = -1;

    HOLDS(OK(coracle_events_open(engine, NULL, &events, &err)));
    LEAVES(OK(coracle_container_create(engine, "clean", text, NULL, &json, NULL, &err)));
    snprintf(id, sizeof id, "%.64s", json ? json : "");
    FREE(json);
    LEAVES(OK(coracle_container_explain(engine, id, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_container_inspect(engine, id, 1, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_container_list(engine, "{\"all\":true}", &json, &err)));
    FREE(json);
    HOLDS(OK(coracle_container_start(engine, id, &io, NULL, &session, &err)));
    LEAVES(coracle_session_fd(session, CORACLE_STDOUT));
    LEAVES(CHECK(coracle_session_read(session, piece, sizeof piece, NULL, NULL, &err) > 0, ""));
    LEAVES(CHECK(coracle_session_write(session, "x\n", 2, NULL, &err) == 2, ""));
    LEAVES(coracle_session_resize(session, 20, 30, NULL));
    LEAVES(CHECK(coracle_session_read(session, piece, sizeof piece, NULL, NULL, &err) > 0, ""));
    HOLDS(OK(coracle_session_close_stdin(session, &err)));
    begin();
    fd = coracle_session_take_fd(session, CORACLE_STDERR);
    end("coracle_session_take_fd", 1);
    close(fd);
    HOLDS(coracle_session_free(session));
    LEAVES(coracle_container_start(engine, id, NULL, NULL, NULL, NULL));
    files(engine, id);
    HOLDS(OK(coracle_container_attach(engine, id, NULL, "{\"stdout\":true}", NULL, &session, &err)));
    HOLDS(coracle_session_free(session));

    LEAVES(OK(coracle_exec_create(engine, id, "{\"Cmd\":[\"true\"],\"AttachStdout\":true}", &exec, &err)));
    HOLDS(OK(coracle_exec_start(engine, exec, &io, NULL, &session, &err)));
    LEAVES(OK(coracle_session_wait(session, NULL, &code, &err)));
    HOLDS(coracle_session_free(session));
    LEAVES(OK(coracle_exec_wait(engine, exec, NULL, &code, &err)));
    LEAVES(OK(coracle_exec_inspect(engine, exec, &json, &err)));
    FREE(json);
    FREE(exec);

    HOLDS(OK(coracle_container_logs(engine, id, "{\"follow\":true}", NULL, &stream, &err)));
    LEAVES(CHECK(coracle_stream_read(stream, piece, sizeof piece, NULL, &err) > 0, ""));
    HOLDS(coracle_stream_free(stream));
    LEAVES(OK(coracle_container_top(engine, id, NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_container_update(engine, id, "{\"PidsLimit\":50}", NULL, &json, &err)));
    FREE(json);
    HOLDS(OK(coracle_container_stats(engine, id, "{\"stream\":false,\"one-shot\":true}", NULL, &stream, &err)));
    HOLDS(CHECK(coracle_stream_read(stream, piece, sizeof piece, NULL, &err) > 0, ""));
    HOLDS(coracle_stream_free(stream));
    LEAVES(OK(coracle_container_pause(engine, id, NULL, &err)));
    LEAVES(OK(coracle_container_unpause(engine, id, NULL, &err)));
    HOLDS(OK(coracle_container_pidfd(engine, id, &fd, &err)));
    close(fd);
    LEAVES(OK(coracle_container_restart(engine, id, 5000, NULL, &err)));
    LEAVES(OK(coracle_container_stop(engine, id, 5000, NULL, &err)));
    LEAVES(OK(coracle_container_start(engine, id, NULL, NULL, NULL, &err)));
    LEAVES(OK(coracle_container_restart_with(engine, id, "{\"grace_ms\":0}", NULL, &err)));
    LEAVES(OK(coracle_container_stop_with(engine, id, "{\"signal\":\"KILL\"}", NULL, &err)));
    LEAVES(OK(coracle_container_start(engine, id, NULL, NULL, NULL, &err)));
    LEAVES(OK(coracle_container_kill(engine, id, NULL, NULL, &err)));
    LEAVES(OK(coracle_container_wait(engine, id, NULL, NULL, &code, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_container_rename(engine, id, "cleaner", &err)));
    LEAVES(OK(coracle_container_remove(engine, "cleaner", 0, NULL, &err)));
    LEAVES(coracle_events_fd(events));
    HOLDS(OK(coracle_events_next(events, LONG, &event, &err)));
    HOLDS(coracle_events_free(events));
}

/* A network of its own, with a container that does not run. */
static void networks(coracle *engine, const char *image) {
    char id[65], text[512], *json = NULL;
    LEAVES(OK(coracle_network_create(engine, "{\"Name\":\"clean\",\"Internal\":true}", NULL, &json, NULL, &err)));
    FREE(json);
    OK(coracle_network_create(engine, "{\"Name\":\"other\"}", NULL, &json, NULL, &err));
    FREE(json);
    snprintf(text, sizeof text, "{\"Image\":\"%s\",\"Cmd\":[\"true\"],\"HostConfig\":{\"NetworkMode\":\"clean\"}}", image);
    create(engine, "linked", text, id);
    LEAVES(OK(coracle_network_inspect(engine, "clean", &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_network_connect(engine, "other", "{\"Container\":\"linked\"}", NULL, &err)));
    LEAVES(OK(coracle_network_disconnect(engine, "other", "{\"Container\":\"linked\"}", NULL, &err)));
    OK(coracle_container_remove(engine, id, 0, NULL, &err));
    LEAVES(OK(coracle_network_remove(engine, "other", NULL, &err)));
    LEAVES(OK(coracle_network_remove(engine, "clean", NULL, &err)));
    LEAVES(OK(coracle_network_repair(engine, NULL, &err)));
    LEAVES(OK(coracle_network_release(engine, NULL, &err)));
}

static void http(coracle *engine) {
    coracle_stream *stream = NULL;
    int32_t status = 0, fd = -1;
    char text[1024];
    HOLDS(OK(coracle_http_request(engine, "GET", "/v1.24/_ping", NULL, NULL, 0, NULL, &status, &stream, &err)));
    HOLDS(coracle_stream_free(stream));
    HOLDS(OK(coracle_http_connect(engine, &fd, &err)));
    CHECK(write(fd, "GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n", 32) == 32, "");
    ssize_t count;
    while ((count = read(fd, text, sizeof text)) < 0 && errno == EINTR) {}
    CHECK(count > 0, "");
    begin();
    close(fd);
    end("the end of a private connection", 1);
    coracle_http_server *server = NULL;
    char *json = NULL;
    int32_t listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un nameless = {.sun_family = AF_UNIX};
    CHECK(bind(listening, (struct sockaddr *)&nameless, sizeof(sa_family_t)) == 0 && listen(listening, 1) == 0, "a socket");
    HOLDS(OK(coracle_http_serve(engine, NULL, &listening, 1, &server, &err)));
    LEAVES(OK(coracle_http_server_addresses(server, &json, &err)));
    FREE(json);
    HOLDS(OK(coracle_http_server_shutdown(server, LONG, NULL, &err)));
    HOLDS(coracle_http_server_free(server));
    close(listening);
    LEAVES(OK(coracle_engine_reload(engine, "[]", NULL, &err)));
}

/* Writes into pages of memory that lie apart; answers how many of the writes the kernel had to see to. */
static long faults_of_writes(volatile char *memory, size_t pages, size_t apart) {
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    for (size_t i = 0; i < pages; i++) memory[i * apart]++;
    getrusage(RUSAGE_THREAD, &after);
    return after.ru_minflt - before.ru_minflt;
}

/* fork copies the tables of all memory: 150 ms for 2 GiB. Then the first write into each page is a fault: a start causes
 * none, whatever the time that it takes. (The kernel may have reasons of its own: not at each of some starts.) */
static void size_of_the_host(coracle *engine, const char *image) {
    enum { PAGES = 1024, APART = 2 << 20 /* a table for each */, STARTS = 5 };
    size_t size = (size_t)PAGES * APART;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), text[96], id[65];
    CHECK(memory != MAP_FAILED, "2 GiB of addresses");
    if (memory == MAP_FAILED) return;
    madvise(memory, size, MADV_NOHUGEPAGE);
    long least = PAGES;
    for (int i = 0; i < STARTS; i++) {
        create(engine, NULL, body(image, "true", ""), id);
        faults_of_writes(memory, PAGES, APART);
        OK(coracle_container_start(engine, id, NULL, NULL, NULL, &err));
        long faults = faults_of_writes(memory, PAGES, APART);
        if (faults < least) least = faults;
        OK(coracle_container_wait(engine, id, NULL, NULL, &(int32_t){0}, NULL, &err));
        OK(coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, NULL, &err));
    }
    snprintf(text, sizeof text, "a start in a host of 2 GiB: %ld of %d pages were copied", least, PAGES);
    CHECK(least < PAGES / 2, text);
    dprintf(report_fd, "%s\n", text);
    munmap(memory, size);
}

static pid_t child_of_the_host(int lives) {
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (lives) pause();
        _exit(7);
    }
    return child;
}

/* Unmounts here the mounts of other tests, which go while this one runs. */
static void leave_mounts_of_others(const char *root) {
    char *save = NULL, path[4096];
    for (char *line = strtok_r(slurp("/proc/self/mountinfo"), "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (sscanf(line, "%*s %*s %*s %*s %4095s", path) == 1 && strstr(path, "/coracle-") && strncmp(root, path, strlen(path)))
            umount2(path, MNT_DETACH);
}

/* Makes the program a hard one, before it uses the library. */
static void become_hard(const char *root) {
    char directory[] = "/tmp/coracle-hygiene-XXXXXX", file[64];
    CHECK(mkdtemp(directory) != NULL, "");
    snprintf(file, sizeof file, "%s/f", directory);
    report_fd = fcntl(1, F_DUPFD_CLOEXEC, 200);

    /* Mounts of others are not to be seen here, so that all are compared. */
    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "");
    leave_mounts_of_others(root);
    living_child = child_of_the_host(1);
    ended_child = child_of_the_host(0);
    siginfo_t info;
    waitid(P_PID, (id_t)ended_child, &info, WEXITED | WNOWAIT);

    int lock = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 5};
    CHECK(fcntl(lock, F_SETLK, &range) == 0, "");
    dup3(lock, 199, O_CLOEXEC);
    CHECK(fcntl(lock, F_SETLK, &range) == 0, "");
    if (closed) {
        close(0), close(1), close(2);
        CHECK(chdir(directory) == 0, "");
    } else {
        /* Bytes that come on these two are the library's. */
        int output = open(file, O_RDWR | O_CLOEXEC);
        dup2(output, 1), dup2(output, 2);
        close(output);
        CHECK(fcntl(199, F_SETLK, &range) == 0, "");
        CHECK(chdir("/proc/self/fdinfo") == 0, "an odd directory");
    }
    unlink(file);
    rmdir(directory);
    struct rlimit files = {256, 256};
    setrlimit(RLIMIT_NOFILE, &files);
    umask(027);
}

static void become_busy(pthread_t *threads) {
    host_threads[0] = (pid_t)syscall(SYS_gettid);
    for (int i = 1; i < thread_count; i++) pthread_create(&threads[i], NULL, busy, (void *)&host_threads[i]);
    for (int i = 1; i < thread_count; i++)
        while (!host_threads[i]) sched_yield();
    struct sigaction child = {.sa_handler = ignored ? SIG_IGN : on_child}, tick = {.sa_handler = on_alarm};
    struct sigaction pipe = {.sa_handler = ignored ? SIG_IGN : SIG_DFL};
    struct itimerval often = {{0, 7000}, {0, 7000}};
    sigaction(SIGCHLD, &child, NULL);
    sigaction(SIGPIPE, &pipe, NULL);
    sigaction(SIGALRM, &tick, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

/* The host's own children, their ends and their statuses, are still its own. */
static void own_children(void) {
    int status = 0;
    signal(SIGCHLD, SIG_DFL);
    CHECK(waitpid(ended_child, &status, 0) == ended_child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "");
    kill(living_child, SIGTERM);
    pid_t got;
    while ((got = waitpid(-1, &status, 0)) < 0 && errno == EINTR) {}
    CHECK(got == living_child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "");
    CHECK(waitpid(-1, &status, WNOHANG | __WALL) == -1 && errno == ECHILD, "");
}

/* From the opening of an engine to its end. */
static void every_function(char **argv) {
    coracle *engine = NULL, *again = NULL;
    char *image = NULL, *json = NULL, copy[4096];
    library();
    begin();
    engine = open_root(argv);
    end("coracle_open", 1);
    LEAVES(again = coracle_ref(engine));
    LEAVES(coracle_close(again));
    LEAVES(OK(coracle_engine_info(engine, NULL, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_engine_version(engine, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_root_leftovers(engine, &json, &err)));
    FREE(json);
    LEAVES(OK(coracle_root_sweep(engine, NULL, &json, &err)));
    FREE(json);
    LEAVES(STATUS(CORACLE_ENOT_FOUND, coracle_root_import_docker(engine, "{\"directory\":\"/nowhere\"}", NULL, &json, &err)));
    coracle_error_free(err), err = NULL;
    // A copy reads the database by a second connection, which the engine keeps for calls that come together.
    static int round;
    snprintf(copy, sizeof copy, "%s-first-copy-%d", argv[1], round);
    OK(coracle_root_copy(engine, copy, NULL, NULL, &json, &err));
    FREE(json);
    snprintf(copy, sizeof copy, "%s-copy-%d", argv[1], round++);
    LEAVES(OK(coracle_root_copy(engine, copy, NULL, NULL, &json, &err)));
    FREE(json);
    errors(engine);
    images(engine, argv[3], &image);
    containers(engine, image);
    networks(engine, image);
    operations(engine);
    http(engine);
    if (big) size_of_the_host(engine, image);
    HOLDS(coracle_close(engine));
    coracle_set_log(CORACLE_LOG_ERROR, NULL, NULL, NULL, &err);
    free(image);
}

/* Bytes that were asked for and not given back, once threads that end have ended: nothing has come back for a second. */
static size_t memory_in_use(void) {
    size_t least = SIZE_MAX;
    for (int same = 0; same < 10; same++) {
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        struct mallinfo2 info = mallinfo2();
        size_t used = info.uordblks + info.hblkhd;
        if (used < least) {
            least = used;
            same = 0;
        }
    }
    return least;
}

/* Memory that is asked for once shows in one of the looks; memory that is lost in each round, in all. */
static void no_memory_is_kept(char **argv) {
    enum { WARM = 2, LOOKS = 3, ROUNDS = 2, MOST = 64 /* bytes a round */ };
    for (int i = 0; i < WARM; i++) every_function(argv);
    size_t last = memory_in_use(), least = SIZE_MAX;
    for (int look = 0; look < LOOKS; look++) {
        for (int i = 0; i < ROUNDS; i++) every_function(argv);
        size_t used = memory_in_use(), grown = used > last ? used - last : 0;
        if (grown < least) least = grown;
        dprintf(report_fd, "%zu bytes, %zu after %d more rounds of every function\n", last, used, ROUNDS);
        last = used;
    }
    char text[96];
    snprintf(text, sizeof text, "each of %d looks found %zu bytes more or worse", LOOKS, least);
    CHECK(least < ROUNDS * MOST, text);
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    thread_count = atoi(argv[4]);
    if (thread_count < 1 || thread_count > MOST_THREADS) return 2;
    for (int i = 6; i < argc; i++) {
        closed |= !strcmp(argv[i], "closed");
        ignored |= !strcmp(argv[i], "ignored");
        big |= !strcmp(argv[i], "big");
        memory |= !strcmp(argv[i], "memory");
    }
    pthread_t threads[MOST_THREADS];
    become_hard(argv[1]);
    become_busy(threads);

    at_first = stable_look();
    if (memory) no_memory_is_kept(argv);
    else every_function(argv);

    before = (struct text){strdup(at_first.bytes), at_first.used, at_first.used};
    end("all of it", 0);
    all_were_watched(argv[5]);
    CHECK(children_seen == 0, "SIGCHLD");
    CHECK(alarms_seen > 0 && stray_alarms == 0, "the host's handlers ran on the host's threads only");
    struct stat written;
    CHECK(closed || (fstat(1, &written) == 0 && written.st_size == 0), "nothing was written to stdout and stderr");
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    ending = 1;
    for (int i = 1; i < thread_count; i++) pthread_join(threads[i], NULL);
    own_children();
    return summary();
}
