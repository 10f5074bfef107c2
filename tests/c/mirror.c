/*
 * The host must not leak into a container: one started by a plain program and one started by a program that
 * is odd in every way a child would inherit see the same of themselves.
 *
 *   mirror ROOT RUN IMAGE.tar
 */
#define _GNU_SOURCE
#include "check.h"

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>

/* The view that a process has of itself, without the parts that differ from run to run. */
static const char script[] =
    "grep -vE '^(Pid|Tgid|NSpid|NStgid|NSpgid|NSsid|Ngid|PPid|FDSize|Vm|Rss|Threads|SigQ|State|voluntary|nonvoluntary|Name)' "
    "/proc/self/status; cat /proc/self/limits /proc/self/timerslack_ns /proc/self/oom_score_adj /proc/self/personality "
    "/proc/self/coredump_filter; ls /proc/self/fd | wc -l; env | grep -v HOSTNAME | sort; umask; pwd; "
    "cut -d' ' -f7,18,19,40,41 /proc/self/stat; nice; ionice; ulimit -a; grep -c keyring /proc/keys; hostname | wc -c";

static void look_inside(coracle *engine, const char *image, const char *more, char *out, size_t size) {
    char id[65], *errors = malloc(size);
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    int32_t code = -1;
    out[0] = 0;
    if (create(engine, NULL, body(image, script, more), id)) {
        if (OK(coracle_container_start(engine, id, &io, NULL, &session, &err))) {
            read_all(session, out, errors, size);
            OK(coracle_session_wait(session, NULL, &code, &err));
            coracle_session_free(session);
        }
        OK(coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, NULL, &err));
    }
    CHECK(*out, errors);
    free(errors);
}

/* As a script, by exec in a running container. */
static void look_by_exec(coracle *engine, const char *image, char *out, size_t size) {
    char id[65], text[4096], *exec = NULL, *errors = malloc(size);
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    create(engine, NULL, body(image, "while :; do sleep 1; done", ""), id);
    OK(coracle_container_start(engine, id, NULL, NULL, NULL, &err));
    snprintf(text, sizeof text, "{\"Cmd\":[\"sh\",\"-c\",\"%s\"],\"AttachStdout\":true,\"AttachStderr\":true}", script);
    OK(coracle_exec_create(engine, id, text, &exec, &err));
    out[0] = 0;
    if (OK(coracle_exec_start(engine, exec, &io, NULL, &session, &err))) read_all(session, out, errors, size);
    coracle_session_free(session);
    coracle_free(exec);
    OK(coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, NULL, &err));
    CHECK(*out, errors);
    free(errors);
}

static void write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) > 0, path);
    close(fd);
}

/* All that a child would inherit. */
static void become_odd(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } ignore = {(void *)1, 0, NULL, 0};
    for (int signal = 1; signal <= 64; signal++) syscall(SYS_rt_sigaction, signal, &ignore, NULL, 8);
    umask(0777);
    CHECK(setpriority(PRIO_PROCESS, 0, 7) == 0, "");
    CHECK(syscall(SYS_ioprio_set, 1, 0, 3 << 13 /* idle */) == 0, "");
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    CHECK(sched_setaffinity(0, sizeof first, &first) == 0, "");
    struct sched_param none = {0};
    CHECK(sched_setscheduler(0, SCHED_BATCH, &none) == 0, "");
    prctl(PR_SET_TIMERSLACK, 1000000);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_KEEPCAPS, 1);
    write_text("/proc/self/oom_score_adj", "500");
    write_text("/proc/self/coredump_filter", "1");
    CHECK(personality(ADDR_NO_RANDOMIZE) >= 0, "");
    /* Soft limits: the hard ones are what the administrator gave. */
    static const int limits[] = {RLIMIT_NOFILE, RLIMIT_STACK, RLIMIT_CORE};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        getrlimit(limits[i], &limit);
        limit.rlim_cur = limits[i] == RLIMIT_STACK ? 1 << 20 : limits[i] == RLIMIT_CORE ? 0 : 256;
        CHECK(setrlimit(limits[i], &limit) == 0, "");
    }
    gid_t groups[] = {4, 24, 1234};
    CHECK(setgroups(3, groups) == 0, "");
    setenv("SECRET", "of the host", 1);
    setenv("PATH", "/nowhere", 1);
    setenv("LD_PRELOAD", "/nowhere.so", 1);
    CHECK(chdir("/proc/self") == 0, "");
    /* A terminal of its own. */
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0, "");
    setsid();
    int terminal = open(ptsname(master), O_RDWR | O_CLOEXEC);
    CHECK(ioctl(terminal, TIOCSCTTY, 0) == 0 && tcgetsid(terminal) == getpid(), "a controlling terminal");
    /* Descriptors that are inherited. */
    for (int fd = 100; fd < 120; fd++) dup2(1, fd);
    syscall(SYS_keyctl, 1 /* JOIN_SESSION_KEYRING */, "of-the-host");
    syscall(SYS_add_key, "user", "of-the-host", "secret", 6, -3);
}

/* Lines that one has and the other has not. */
static void same(const char *what, const char *plain, const char *odd) {
    int equal = !strcmp(plain, odd);
    CHECK(equal, what);
    while (!equal && (*plain || *odd)) {
        size_t a = strcspn(plain, "\n"), b = strcspn(odd, "\n");
        if (a != b || memcmp(plain, odd, a)) dprintf(report_fd, "    - %.*s\n    + %.*s\n", (int)a, plain, (int)b, odd);
        plain += a + (plain[a] != 0), odd += b + (odd[b] != 0);
    }
}

int main(int argc, char **argv) {
    enum { SIZE = 65536 };
    if (argc != 4) return 2;
    char *plain = malloc(SIZE), *odd = malloc(SIZE), *exec_plain = malloc(SIZE), *exec_odd = malloc(SIZE), *user = malloc(SIZE);
    coracle *engine = open_root(argv);
    char *image = load_image(engine, argv[3]);
    look_inside(engine, image, "", plain, SIZE);
    look_by_exec(engine, image, exec_plain, SIZE);
    /* These hold whichever program starts it. */
    static const char *const held[] = {"SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000", "NoNewPrivs:\t0", "Umask:\t0022",
                                       "Seccomp:\t2", "\n50000\n", "\n/\n", "CapInh:\t0000000000000000", "CapEff:\t00000000a80425fb"};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) CHECK(has(plain, held[i]), held[i]);
    if (failed) dprintf(report_fd, "%s", plain);
    become_odd();
    look_inside(engine, image, "", odd, SIZE);
    same("a container's first process", plain, odd);
    CHECK(!has(odd, "SECRET") && !has(odd, "nowhere"), "");
    look_by_exec(engine, image, exec_odd, SIZE);
    same("a second process", exec_plain, exec_odd);
    look_inside(engine, image, "\"User\":\"1000:1000\",", user, SIZE);
    CHECK(has(user, "Uid:\t1000\t1000") && has(user, "CapEff:\t0000000000000000") && !has(user, "1234"), user);
    coracle_close(engine);
    /* An engine that an odd program opened. */
    engine = open_root(argv);
    look_inside(engine, image, "", odd, SIZE);
    same("a container of an engine that was opened so", plain, odd);
    free(image);
    coracle_close(engine);
    return summary();
}
