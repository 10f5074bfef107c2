/*
 * Odd hosts: two roots in one program, two copies of the library in one program, a program that unloads it, one that is
 * PID 1, one whose outputs nobody reads. The promises for each stand in docs/hosts.md.
 *
 *   host ROOT RUN IMAGE.tar LIBCORACLE.so
 */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static const char *place(const char *base, const char *name) {
    static char paths[8][4200];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", base, name);
    mkdir(path, 0700);
    return path;
}

static coracle *open_at(const char *root, const char *run) {
    char *argv[] = {NULL, (char *)root, (char *)run};
    return open_root(argv);
}

/* Runs a script to its end; what it said must be this. */
static void runs(coracle *engine, const char *image, const char *script, const char *wanted) {
    char id[65], out[4096], errors[4096];
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    int32_t code = -1;
    if (!create(engine, NULL, body(image, script, ""), id)) return;
    if (OK(coracle_container_start(engine, id, &io, NULL, &session, &err))) {
        read_all(session, out, errors, sizeof out);
        CHECK(!strcmp(out, wanted), out);
        OK(coracle_session_wait(session, NULL, &code, &err));
        CHECK(code == 0, errors);
    }
    coracle_session_free(session);
    OK(coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, NULL, &err));
}

static int count(coracle *engine) {
    char *json = NULL;
    int containers = 0;
    OK(coracle_container_list(engine, "{\"all\":true}", &json, &err));
    for (const char *at = json; at && (at = strstr(at, "\"Id\":")) != NULL; at++) containers++;
    coracle_free(json);
    return containers;
}

/* ---- two roots ---- */

static void two_roots(coracle *engine, char **argv, const char *image) {
    coracle *other = open_at(place(argv[1], "../other"), place(argv[2], "../other-run"));
    char id[65], *name = load_image(other, argv[3]);
    create(engine, "same-name", body(image, "true", ""), id);
    CHECK(count(engine) == 1 && count(other) == 0, "each sees its own");
    create(other, "same-name", body(name, "true", ""), id);
    CHECK(count(engine) == 1 && count(other) == 1, "each has its own names");
    runs(other, name, "echo other", "other\n");
    OK(coracle_container_remove(engine, "same-name", 0, NULL, &err));
    OK(coracle_container_inspect(other, "same-name", 0, &(char *){NULL}, &err));
    coracle_close(engine == other ? NULL : other);
    runs(engine, image, "echo first", "first\n");
    free(name);
}

/* ---- two copies ---- */

/* The functions of a copy that are used here. */
struct copy {
    coracle_status (*open)(const char *, const coracle_open_options *, coracle **, coracle_error **);
    void (*close)(coracle *);
    coracle_status (*load)(coracle *, coracle_read_fn, void *, coracle_op *, char **, coracle_error **);
    coracle_status (*create)(coracle *, const char *, const char *, coracle_op *, char **, char **, coracle_error **);
    coracle_status (*start)(coracle *, const char *, const coracle_io *, coracle_op *, coracle_session **, coracle_error **);
    coracle_status (*wait)(coracle *, const char *, const char *, coracle_op *, int32_t *, char **, coracle_error **);
    coracle_status (*remove)(coracle *, const char *, uint64_t, coracle_op *, coracle_error **);
    coracle_status (*info)(coracle *, coracle_op *, char **, coracle_error **);
    const char *(*message)(const coracle_error *);
    void (*error_free)(coracle_error *);
    void (*free)(void *);
};

static int find(struct copy *copy, void *library) {
    static const char *const names[] = {"open",        "close",        "image_load", "container_create", "container_start",
                                        "container_wait", "container_remove", "engine_info", "error_message",    "error_free",
                                        "free"};
    void **into = (void **)copy;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "coracle_%s", names[i]);
        if (!(into[i] = dlsym(library, name))) return 0;
    }
    return 1;
}

/* A short life in a copy of the library; its errors are its own. */
static void lives(const struct copy *copy, const char *root, const char *run, const char *archive) {
    coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
    coracle *engine = NULL;
    coracle_error *error = NULL;
    char *json = NULL, id[65] = "";
    int32_t code = -1;
    int file = open(archive, O_RDONLY | O_CLOEXEC);
    options.run_dir = run, options.config_json = "{\"durability\":\"off\"}";
    CHECK(copy->open(root, &options, &engine, &error) == CORACLE_OK, copy->message(error));
    CHECK(copy->load(engine, read_file, &file, NULL, &json, &error) == CORACLE_OK, copy->message(error));
    copy->free(json);
    close(file);
    CHECK(copy->create(engine, "copied", body("busybox", "exit 9", ""), NULL, &json, NULL, &error) == CORACLE_OK, copy->message(error));
    snprintf(id, sizeof id, "%.64s", json ? json : "");
    copy->free(json);
    CHECK(copy->start(engine, id, NULL, NULL, NULL, &error) == CORACLE_OK, copy->message(error));
    CHECK(copy->wait(engine, id, NULL, NULL, &code, NULL, &error) == CORACLE_OK && code == 9, copy->message(error));
    CHECK(copy->remove(engine, id, 0, NULL, &error) == CORACLE_OK, copy->message(error));
    /* A handle of one copy is not a handle of the other. */
    coracle *mine = engine;
    CHECK(coracle_engine_info(mine, NULL, &json, &err) == CORACLE_EMISUSE || json != NULL, "no crash");
    coracle_free(json);
    coracle_error_free(err);
    err = NULL;
    copy->close(engine);
}

static void two_copies(coracle *engine, char **argv, const char *image) {
    /* In a name space of its own, with a C library of its own. */
    void *library = dlmopen(LM_ID_NEWLM, argv[4], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, library ? "" : dlerror());
    struct copy copy;
    if (library && find(&copy, library)) {
        CHECK((void *)copy.open != (void *)coracle_open, "it is another copy");
        lives(&copy, place(argv[1], "../copy"), place(argv[2], "../copy-run"), argv[3]);
    }
    /* A copy of the file: the same C library, other code and data. */
    char path[4200], command[9000];
    snprintf(path, sizeof path, "%s/../copied.so", argv[1]);
    snprintf(command, sizeof command, "cp %s %s", argv[4], path);
    CHECK(system(command) == 0, "");
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(file != NULL, file ? "" : dlerror());
    if (file && find(&copy, file)) {
        lives(&copy, place(argv[1], "../copy"), place(argv[2], "../copy-run"), argv[3]);
        /* Two copies open one root: SQLite's locks are the process's, so the second is told. */
        coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
        coracle *again = NULL;
        coracle_error *error = NULL;
        options.run_dir = argv[2];
        coracle_status status = copy.open(argv[1], &options, &again, &error);
        CHECK(status == CORACLE_ECONFLICT && has(copy.message(error), "another copy"), copy.message(error));
        copy.error_free(error);
        copy.close(again);
        dlclose(file);
        CHECK(dlopen(path, RTLD_NOW | RTLD_NOLOAD) != NULL, "it stays: threads may have destructors of it to run");
    }
    runs(engine, image, "echo still", "still\n");
}

/* A thread that used the library ends after it was closed. */
static void *use_and_end(void *path) {
    struct copy copy;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library || !find(&copy, library)) return NULL;
    coracle_error *error = NULL;
    char *json = NULL;
    copy.info(NULL, NULL, &json, &error);
    copy.error_free(error);
    dlclose(library);
    return library;
}

static void unloading(char **argv) {
    char path[4200];
    snprintf(path, sizeof path, "%s/../copied.so", argv[1]);
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        void *result = NULL;
        pthread_create(&thread, NULL, use_and_end, path);
        pthread_join(thread, &result);
        CHECK(result != NULL, "");
    }
    unlink(path);
}

/* ---- closed pipes ---- */

/* Nobody reads what this program writes; SIGPIPE has its default action, which ends a program that is sent one. */
static void closed_pipes(coracle *engine, const char *image) {
    int ends[2], fd = -1;
    char id[65];
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    coracle_stream *stream = NULL;
    signal(SIGPIPE, SIG_DFL);
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "");
    close(ends[0]);
    io.fd_out = ends[1];
    create(engine, NULL, body(image, "echo lost; cat; sleep 1000", "\"OpenStdin\":true,"), id);
    OK(coracle_container_start(engine, id, &io, NULL, &session, &err));
    close(ends[1]);
    OK(coracle_container_kill(engine, id, NULL, NULL, &err));
    OK(coracle_container_wait(engine, id, NULL, NULL, &(int32_t){0}, NULL, &err));
    for (int i = 0; i < 100; i++) {
        coracle_session_write(session, "more", 4, NULL, &err);
        coracle_error_free(err);
        err = NULL;
    }
    coracle_session_free(session);
    OK(coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, NULL, &err));

    /* Streams and connections that are dropped in the middle. */
    for (int i = 0; i < 5; i++) {
        OK(coracle_image_save(engine, "\"busybox\"", NULL, &stream, &err));
        coracle_stream_free(stream);
        OK(coracle_http_connect(engine, &fd, &err));
        static const char request[] = "GET /v1.24/images/busybox/get HTTP/1.1\r\nHost: x\r\n\r\n";
        CHECK(send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0, "");
        if (i % 2) poll(&(struct pollfd){fd, POLLIN, 0}, 1, 1000);
        close(fd);
    }
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    runs(engine, image, "echo alive", "alive\n");
}

/* ---- small stacks ---- */

struct small {
    char **argv;
    const char *image;
};

static void *on_a_small_stack(void *given) {
    struct small *small = given;
    char *json = NULL;
    coracle *engine = open_root(small->argv);
    OK(coracle_engine_info(engine, NULL, &json, &err));
    coracle_free(json);
    free(load_image(engine, small->argv[3]));
    runs(engine, small->image, "echo small", "small\n");
    coracle_close(engine);
    return NULL;
}

/* The smallest stacks that a runtime gives its threads. */
static void small_stacks(char **argv, const char *image) {
    struct small small = {argv, image};
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 << 10);
    CHECK(pthread_create(&thread, &attributes, on_a_small_stack, &small) == 0, "");
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* ---- PID 1 ---- */

static volatile sig_atomic_t child_signals;
static void on_child(int signal) {
    (void)signal;
    child_signals++;
}

/* The first process of a pid name space gets the monitors as children when they outlive the one that made them: it may
 * reap them, as it does with all that comes to it, and the library does not mind. */
static int first_process(char **argv) {
    passed = failed = 0;
    CHECK(getpid() == 1, "");
    CHECK(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0, "");
    struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &action, NULL);
    coracle *engine = open_at(place(argv[1], "../first"), place(argv[2], "../first-run"));
    char *image = load_image(engine, argv[3]), id[65];
    int32_t code = -1;
    runs(engine, image, "echo init", "init\n");
    create(engine, "reaped", body(image, "exit 6", ""), id);
    OK(coracle_container_start(engine, id, NULL, NULL, NULL, &err));
    OK(coracle_container_wait(engine, id, NULL, NULL, &code, NULL, &err));
    CHECK(code == 6, "");
    /* Both monitors end, and are this process's to reap: nothing else is. */
    int reaped = 0, status = 0;
    for (int i = 0; i < LONG / 10 && reaped < 2; i++) {
        while (waitpid(-1, &status, WNOHANG | __WALL) > 0) reaped++;
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    CHECK(reaped == 2, "one process for each container");
    CHECK(waitpid(-1, &status, WNOHANG | __WALL) == -1 && errno == ECHILD, "");
    /* One that ignores SIGCHLD. */
    signal(SIGCHLD, SIG_IGN);
    OK(coracle_container_start(engine, id, NULL, NULL, NULL, &err));
    OK(coracle_container_wait(engine, id, NULL, NULL, &code, NULL, &err));
    CHECK(code == 6, "");
    OK(coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, NULL, &err));
    free(image);
    coracle_close(engine);
    return failed != 0;
}

static void pid_one(char **argv) {
    int status = -1;
    pid_t outer = fork();
    if (outer == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) _exit(99);
        pid_t first = fork();
        if (first == 0) _exit(first_process(argv));
        waitpid(first, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
    }
    waitpid(outer, &status, 0);
    char text[32];
    snprintf(text, sizeof text, "status %x", status);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, text);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    /* First: a fork takes no engine along. */
    pid_one(argv);
    coracle *engine = open_root(argv);
    char *image = load_image(engine, argv[3]);
    two_roots(engine, argv, image);
    two_copies(engine, argv, image);
    unloading(argv);
    closed_pipes(engine, image);
    small_stacks(argv, image);
    free(image);
    coracle_close(engine);
    return summary();
}
