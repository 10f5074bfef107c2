/*
 * Shared by the C tests: counted checks, errors that explain themselves, a root with an image.
 *
 * A test program is called as `test ROOT RUN IMAGE.tar`, ends with the line `N passed, N failed`, and its status says
 * whether all passed. The directories are the caller's to make and remove.
 */
#ifndef CHECK_H
#define CHECK_H

#include "coracle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long to wait, in milliseconds, for something that comes: a disk may stand still for more than a minute. */
enum { LONG = 300000 };

static int passed, failed;
static int report_fd = 1;
static coracle_error *err;

/* One checked fact. */
#define CHECK(fact, ...) check_fact((fact) != 0, __FILE__, __LINE__, #fact, __VA_ARGS__)
/* A call that answers this status; `err` is written, and freed here. */
#define STATUS(wanted, call) check_status((wanted), (int64_t)(call), __LINE__, #call)
/* A call that succeeds. */
#define OK(call) STATUS(CORACLE_OK, call)

static void check_fact(int fact, const char *file, int line, const char *text, const char *more) {
    if (fact) {
        passed++;
        return;
    }
    failed++;
    dprintf(report_fd, "%s:%d: failed: %s%s%s\n", file, line, text, *more ? ": " : "", more);
}

static int check_status(int32_t wanted, int64_t got, int line, const char *call) {
    int good = got == wanted && (got < 0) == (err != NULL) && (!err || coracle_error_code(err) == got) &&
               (!err || (*coracle_error_message(err) && *coracle_error_area(err) && *coracle_error_detail(err) == '{'));
    if (good) {
        passed++;
    } else {
        failed++;
        dprintf(report_fd, "line %d: %s: wanted %s, got %" PRId64 " %s: %s %s\n", line, call, coracle_status_name(wanted),
                got, got <= 0 ? coracle_status_name((coracle_status)got) : "", coracle_error_message(err),
                coracle_error_detail(err));
    }
    coracle_error_free(err);
    err = NULL;
    return good;
}

static int summary(void) {
    dprintf(report_fd, "%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

/* Whether `json` (may be NULL) holds this text; frees nothing. */
static int has(const char *json, const char *text) { return json && strstr(json, text) != NULL; }

/* The string member `"key":"..."` of a document, in a buffer of this thread's next call. */
static const char *member(const char *json, const char *key) {
    static char value[4096];
    char pattern[128];
    snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
    const char *at = json ? strstr(json, pattern) : NULL;
    if (!at) return "";
    at += strlen(pattern);
    size_t length = strcspn(at, "\"");
    if (length >= sizeof value) length = sizeof value - 1;
    memcpy(value, at, length);
    value[length] = 0;
    return value;
}

static int64_t read_file(void *user, void *buffer, size_t length) {
    ssize_t count;
    while ((count = read(*(int *)user, buffer, length)) < 0 && errno == EINTR) {}
    return count;
}

/* Opens the root. */
static coracle *open_root(char **argv) {
    coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
    coracle *engine = NULL;
    options.run_dir = argv[2];
    options.config_json = "{\"durability\":\"off\"}";
    OK(coracle_open(argv[1], &options, &engine, &err));
    return engine;
}

/* Loads the archive; answers the first name that it brought, which the caller frees. */
static char *load_image(coracle *engine, const char *archive) {
    char *names = NULL;
    int file = open(archive, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, archive);
    OK(coracle_image_load(engine, read_file, &file, NULL, &names, &err));
    close(file);
    char *name = NULL, *begin = names ? strchr(names, '"') : NULL;
    if (begin) {
        name = strdup(begin + 1);
        name[strcspn(name, "\"")] = 0;
    }
    CHECK(name != NULL, "an archive brings a name");
    coracle_free(names);
    return name ? name : strdup("busybox");
}

/* A create body: a shell script on a network of its own, with these more members ("" or `"Tty":true,`). */
static const char *body(const char *image, const char *script, const char *more) {
    static char text[8192];
    snprintf(text, sizeof text, "{\"Image\":\"%s\",\"Cmd\":[\"sh\",\"-c\",\"%s\"],%s\"HostConfig\":{\"NetworkMode\":\"none\"}}",
             image, script, more);
    return text;
}

/* Creates a container; 0 where that failed. */
static int create(coracle *engine, const char *name, const char *json, char id[65]) {
    char *out = NULL;
    int good = OK(coracle_container_create(engine, name, json, NULL, &out, NULL, &err));
    snprintf(id, 65, "%.64s", out ? out : "");
    coracle_free(out);
    return good;
}

/* Waits for the answer of a call that was begun with the operation, and takes it. */
static coracle_status finish(coracle_op *op, coracle_result *result) {
    coracle_status status;
    *result = (coracle_result)CORACLE_RESULT_INIT;
    do {
        struct pollfd set = {coracle_op_fd(op), POLLIN, 0};
        while (poll(&set, 1, LONG) < 0 && errno == EINTR) {}
        if (!(set.revents & POLLIN)) return CORACLE_ETIMEOUT;
        status = coracle_op_result(op, result, &err);
    } while (status == CORACLE_AGAIN);
    return status;
}

/* An operation with a deadline. */
static coracle_op *within(int64_t ms) {
    coracle_op *op = NULL;
    OK(coracle_op_new(0, &op, &err));
    coracle_op_set_timeout(op, ms);
    return op;
}

/* Reads both outputs of a session to their ends, as text. */
static void read_all(coracle_session *session, char *out, char *errors, size_t size) {
    size_t used[2] = {0, 0};
    char *into[2] = {out, errors}, piece[4096];
    coracle_op *op = within(LONG);
    out[0] = errors[0] = 0;
    for (;;) {
        int32_t channel = -1;
        int64_t count = coracle_session_read(session, piece, sizeof piece, op, &channel, &err);
        if (count <= 0) {
            STATUS(0, count);
            break;
        }
        int which = channel == CORACLE_STDERR;
        if (used[which] + (size_t)count >= size) count = (int64_t)(size - 1 - used[which]);
        memcpy(into[which] + used[which], piece, (size_t)count);
        used[which] += (size_t)count;
        into[which][used[which]] = 0;
    }
    coracle_op_free(op);
}

#endif
