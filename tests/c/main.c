/* The main job: a container's whole life through the C interface. See check.h for how it is called. */
#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Whether it is readable within the time; the host's own signals may interrupt. */
static int readable(int fd, int ms) {
    struct pollfd set = {fd, POLLIN, 0};
    int count;
    while ((count = poll(&set, 1, ms)) < 0 && errno == EINTR) {}
    return count;
}

/* Reads output until a stream has this text. */
static void expect(coracle_session *session, int32_t wanted, const char *text) {
    static char seen[3][8192];
    static size_t used[3];
    coracle_op *op = within(LONG);
    while (!strstr(seen[wanted], text)) {
        char piece[512];
        int32_t channel = -1;
        int64_t count = coracle_session_read(session, piece, sizeof piece, op, &channel, &err);
        if (count <= 0 || channel < 1 || channel > 2 || used[channel] + (size_t)count >= sizeof seen[0]) {
            CHECK(0, text);
            STATUS(1, count);
            break;
        }
        memcpy(seen[channel] + used[channel], piece, (size_t)count);
        used[channel] += (size_t)count;
    }
    CHECK(!strstr(seen[3 - wanted], text), "the two outputs stay apart");
    coracle_op_free(op);
}

static void expect_state(coracle *engine, const char *id, const char *status) {
    char *json = NULL, wanted[64];
    OK(coracle_container_inspect(engine, id, 0, &json, &err));
    snprintf(wanted, sizeof wanted, "\"Status\":\"%s\"", status);
    CHECK(has(json, wanted), json ? member(json, "Status") : "");
    coracle_free(json);
}

static int64_t write_all(coracle_session *session, const char *text) {
    return coracle_session_write(session, text, strlen(text), NULL, &err);
}

static int32_t on_progress(void *user, const char *record) {
    if (record) ++*(int *)user;
    return 0;
}

static void images(coracle *engine, const char *archive, char **name) {
    char *json = NULL;
    int records = 0, file = open(archive, O_RDONLY | O_CLOEXEC);
    coracle_op *op = within(LONG);
    coracle_op_set_progress(op, on_progress, &records, NULL, 0);
    OK(coracle_image_load(engine, read_file, &file, op, &json, &err));
    close(file);
    coracle_op_free(op);
    CHECK(has(json, "busybox"), json ? json : "");
    coracle_free(json);
    *name = load_image(engine, archive);

    OK(coracle_image_list(engine, NULL, &json, &err));
    CHECK(has(json, *name), "the list has it");
    coracle_free(json);
    OK(coracle_image_tag(engine, *name, "other:tag", &err));
    OK(coracle_image_inspect(engine, "other:tag", &json, &err));
    CHECK(has(json, "\"other:tag\"") && has(json, "sha256:"), "inspect shows both names");
    coracle_free(json);
    OK(coracle_image_history(engine, "other:tag", &json, &err));
    CHECK(has(json, "CreatedBy"), "");
    coracle_free(json);
    OK(coracle_image_remove(engine, "other:tag", 0, NULL, &json, &err));
    CHECK(has(json, "Untagged") && !has(json, "Deleted"), json ? json : "");
    coracle_free(json);
    STATUS(CORACLE_ENOT_FOUND, coracle_image_inspect(engine, "other:tag", &json, &err));
}

/* Attached before it runs: answers each line on both streams, then stays until SIGTERM. */
static void talk(coracle *engine, const char *id) {
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    OK(coracle_container_start(engine, id, &io, NULL, &session, &err));
    expect(session, CORACLE_STDOUT, "ready\n");
    CHECK(coracle_session_fd(session, CORACLE_STDOUT) >= 0, "");
    STATUS(6, write_all(session, "hello\n"));
    expect(session, CORACLE_STDOUT, "out hello\n");
    expect(session, CORACLE_STDERR, "err hello\n");
    STATUS(CORACLE_UNCHANGED, coracle_container_start(engine, id, NULL, NULL, NULL, &err));

    coracle_session *second = NULL;
    OK(coracle_container_attach(engine, id, NULL, "{\"stdin\":false,\"stdout\":true,\"stderr\":true}", NULL, &second, &err));
    STATUS(6, write_all(session, "again\n"));
    OK(coracle_session_close_stdin(session, &err));
    char piece[256] = "";
    int32_t channel = -1;
    coracle_op *op = within(LONG);
    CHECK(coracle_session_read(second, piece, sizeof piece - 1, op, &channel, &err) > 0 && has(piece, "again"), piece);
    STATUS(CORACLE_OK, 0);
    coracle_op_free(op);
    coracle_session_free(second);
    expect(session, CORACLE_STDERR, "err again\n");
    /* The end of the session does not end the container. */
    coracle_session_free(session);
    expect_state(engine, id, "running");
}

static void execs(coracle *engine, const char *id) {
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    char *exec = NULL, *json = NULL, out[4096], errors[4096];
    int32_t code = -1;
    OK(coracle_exec_create(engine, id,
                           "{\"Cmd\":[\"sh\",\"-c\",\"cat; echo oops >&2; exit 5\"],"
                           "\"AttachStdin\":true,\"AttachStdout\":true,\"AttachStderr\":true}",
                           &exec, &err));
    OK(coracle_exec_start(engine, exec, &io, NULL, &session, &err));
    STATUS(7, write_all(session, "second\n"));
    OK(coracle_session_close_stdin(session, &err));
    read_all(session, out, errors, sizeof out);
    CHECK(!strcmp(out, "second\n"), out);
    CHECK(!strcmp(errors, "oops\n"), errors);
    OK(coracle_session_wait(session, NULL, &code, &err));
    CHECK(code == 5, "");
    coracle_session_free(session);
    OK(coracle_exec_inspect(engine, exec, &json, &err));
    CHECK(has(json, "\"ExitCode\":5") && has(json, "\"Running\":false"), json ? json : "");
    coracle_free(json);
    coracle_free(exec);

    /* The caller's own descriptors as streams: of the session, then of the process itself. */
    int ends[2];
    for (uint64_t flags = 0; flags <= CORACLE_IO_DIRECT; flags += CORACLE_IO_DIRECT) {
        CHECK(pipe2(ends, O_CLOEXEC) == 0, "");
        io.fd_out = ends[1], io.flags = flags;
        OK(coracle_exec_create(engine, id, "{\"Cmd\":[\"echo\",\"mine\"],\"AttachStdout\":true}", &exec, &err));
        OK(coracle_exec_start(engine, exec, &io, NULL, &session, &err));
        close(ends[1]);
        OK(coracle_session_wait(session, NULL, &code, &err));
        coracle_session_free(session);
        CHECK(readable(ends[0], LONG) == 1, "");
        ssize_t count = read(ends[0], out, sizeof out);
        CHECK(code == 0 && count == 5 && !memcmp(out, "mine\n", 5), "");
        CHECK(read(ends[0], out, sizeof out) == 0, "nobody else has the other end");
        close(ends[0]);
        coracle_free(exec);
    }
    io.flags = 0;

    /* A terminal, with its size. */
    io.fd_out = -1;
    io.rows = 31, io.cols = 97;
    OK(coracle_exec_create(engine, id, "{\"Cmd\":[\"stty\",\"size\"],\"Tty\":true,\"AttachStdin\":true,\"AttachStdout\":true}", &exec,
                           &err));
    OK(coracle_exec_start(engine, exec, &io, NULL, &session, &err));
    read_all(session, out, errors, sizeof out);
    CHECK(!strcmp(out, "31 97\r\n"), out);
    coracle_session_free(session);
    coracle_free(exec);
}

static void logs(coracle *engine, const char *id) {
    coracle_stream *stream = NULL;
    coracle_frame frame = CORACLE_FRAME_INIT;
    static const char *const lines[2][3] = {{"ready\n", "out hello\n", "out again\n"}, {"err hello\n", "err again\n", ""}};
    int count[2] = {0, 0};
    coracle_status status;
    OK(coracle_container_logs(engine, id, NULL, NULL, &stream, &err));
    while ((status = coracle_stream_next(stream, NULL, &frame, &err)) == CORACLE_OK) {
        /* Nothing is said of the times: the machine's clock may be set meanwhile. */
        int which = frame.channel == CORACLE_STDERR;
        const char *wanted = count[which] < 3 ? lines[which][count[which]++] : "";
        CHECK(*wanted && frame.len == strlen(wanted) && !memcmp(frame.data, wanted, frame.len) && frame.time_ns > 0, "a line, in order");
    }
    STATUS(CORACLE_DONE, status);
    CHECK(count[0] == 3 && count[1] == 2, "ready, out hello, out again; err hello, err again");
    coracle_stream_free(stream);

    char text[512];
    OK(coracle_container_logs(engine, id, "{\"stderr\":1,\"tail\":\"1\"}", NULL, &stream, &err));
    STATUS(10, coracle_stream_read(stream, text, sizeof text, NULL, &err));
    CHECK(!memcmp(text, "err again\n", 10), "the last line of stderr");
    STATUS(0, coracle_stream_read(stream, text, sizeof text, NULL, &err));
    coracle_stream_free(stream);

    /* The time and the attributes before a line, as the query asks; this log has no attributes. */
    const char *query = "{\"stderr\":1,\"tail\":1,\"timestamps\":1,\"details\":true}";
    OK(coracle_container_logs(engine, id, query, NULL, &stream, &err));
    OK(coracle_stream_next(stream, NULL, &frame, &err));
    CHECK(frame.len == 42 && frame.data[29] == 'Z' && !memcmp(frame.data + 30, "  err again\n", 12), "its time");
    CHECK(frame.time_ns > 0, "and apart");
    coracle_stream_free(stream);
}

/* A wait that a program polls for ends with this exit code. */
static void expect_end(coracle_op *op, int32_t code) {
    char text[32];
    coracle_result result;
    snprintf(text, sizeof text, "\"StatusCode\":%d", code);
    STATUS(CORACLE_OK, finish(op, &result));
    CHECK(result.code == code && has(result.json, text), result.json ? result.json : "");
    coracle_free(result.json);
}

/* An operation that does not block. */
static coracle_op *nonblocking(void) {
    coracle_op *op = NULL;
    OK(coracle_op_new(CORACLE_OP_NONBLOCK, &op, &err));
    return op;
}

/* Begins a wait for a container. */
static coracle_op *begin_wait(coracle *engine, const char *id, const char *condition) {
    coracle_op *op = nonblocking();
    STATUS(CORACLE_AGAIN, coracle_container_wait(engine, id, condition, op, NULL, NULL, &err));
    return op;
}

static void life(coracle *engine, const char *id) {
    char *json = NULL;
    int32_t code = -1;
    OK(coracle_container_list(engine, NULL, &json, &err));
    CHECK(has(json, id) && has(json, "\"State\":\"running\""), "");
    coracle_free(json);
    OK(coracle_container_top(engine, id, NULL, &json, &err));
    CHECK(has(json, "\"Titles\"") && has(json, "sh"), json ? json : "");
    coracle_free(json);

    OK(coracle_container_pause(engine, id, NULL, &err));
    expect_state(engine, id, "paused");
    STATUS(CORACLE_ECONFLICT, coracle_container_pause(engine, id, NULL, &err));
    OK(coracle_container_unpause(engine, id, NULL, &err));
    expect_state(engine, id, "running");

    int32_t pidfd = -1;
    OK(coracle_container_pidfd(engine, id, &pidfd, &err));
    CHECK(readable(pidfd, 0) == 0, "its process runs");
    coracle_op *all[] = {begin_wait(engine, id, NULL), begin_wait(engine, id, "next-exit"), begin_wait(engine, id, "removed")};
    coracle_result result = CORACLE_RESULT_INIT;
    for (int i = 0; i < 3; i++) {
        STATUS(CORACLE_AGAIN, coracle_op_result(all[i], &result, &err));
        CHECK(result.json == NULL && result.code == -1, "");
        CHECK(readable(coracle_op_fd(all[i]), 0) == 0, "a wait for a container that runs, after a look");
    }
    OK(coracle_container_stop(engine, id, LONG, NULL, &err));
    CHECK(readable(pidfd, LONG) == 1, "its process ended");
    close(pidfd);
    for (int i = 0; i < 2; i++) {
        expect_end(all[i], 3);
        STATUS(CORACLE_EMISUSE, coracle_op_result(all[i], &result, &err));
        coracle_op_free(all[i]);
    }
    coracle_op *removed = all[2];
    STATUS(CORACLE_AGAIN, coracle_op_result(removed, &result, &err));
    coracle_op *ended = begin_wait(engine, id, "not-running");
    expect_end(ended, 3);
    coracle_op_free(ended);
    STATUS(CORACLE_UNCHANGED, coracle_container_stop(engine, id, LONG, NULL, &err));
    OK(coracle_container_wait(engine, id, NULL, NULL, &code, NULL, &err));
    CHECK(code == 3, "the exit code of its own handler");

    OK(coracle_container_restart(engine, id, 1000, NULL, &err));
    expect_state(engine, id, "running");
    STATUS(CORACLE_ECONFLICT, coracle_container_remove(engine, id, 0, NULL, &err));
    OK(coracle_container_kill(engine, id, "KILL", NULL, &err));
    OK(coracle_container_wait(engine, id, NULL, NULL, &code, NULL, &err));
    CHECK(code == 137, "");

    OK(coracle_container_rename(engine, id, "retired", &err));
    OK(coracle_container_inspect(engine, "retired", 1, &json, &err));
    CHECK(has(json, "\"Name\":\"/retired\"") && has(json, "SizeRootFs"), "");
    coracle_free(json);
    OK(coracle_container_remove(engine, "retired", 0, NULL, &err));
    STATUS(CORACLE_ENOT_FOUND, coracle_container_inspect(engine, id, 0, &json, &err));
    expect_end(removed, 137);
    coracle_op_free(removed);
}

/* Containers that do not run go together, if the filters choose them. */
static void prune(coracle *engine, const char *image) {
    char id[65], *json = NULL;
    if (!create(engine, "idle", body(image, "true", ""), id)) return;
    OK(coracle_container_prune(engine, "{\"name\":[\"somebody-else\"]}", NULL, &json, &err));
    CHECK(has(json, "\"ContainersDeleted\":[]"), json ? json : "");
    coracle_free(json);
    OK(coracle_container_prune(engine, NULL, NULL, &json, &err));
    CHECK(has(json, id) && has(json, "SpaceReclaimed"), json ? json : "");
    coracle_free(json);
    STATUS(CORACLE_ENOT_FOUND, coracle_container_inspect(engine, id, 0, &json, &err));
}

/* A host that is newer than the library: what the library does not know is told, and nothing fails by it. */
/* `head`, `count` pieces, the last one without its comma, and `tail`. Up to two numbers in a piece are its place. */
static char *repeated(const char *head, const char *piece, int count, const char *tail) {
    size_t room = strlen(head) + strlen(tail) + (size_t)count * (strlen(piece) + 16) + 1;
    char *text = malloc(room), *at = text + sprintf(text, "%s", head);
    for (int i = 1; i <= count; i++) at += sprintf(at, piece, i, i);
    if (count) at--;
    sprintf(at, "%s", tail);
    return text;
}

/* A create names every port; documents of the same size that want memory are refused. */
static void every_port(coracle *engine, const char *image) {
    char head[256], *json = NULL;
    char *exposed = repeated("", "\"%d/tcp\":{},", 65535, "");
    char *bound = repeated("", "\"%d/tcp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"%d\"}],", 65535, "");
    size_t room = strlen(exposed) + strlen(bound) + sizeof head + 128;
    char *all = malloc(room);
    snprintf(all, room, "{\"Image\":\"%s\",\"Cmd\":[\"true\"],\"ExposedPorts\":{%s},\"HostConfig\":{\"PortBindings\":{%s}}}",
             image, exposed, bound);
    free(exposed), free(bound);
    if (OK(coracle_container_create(engine, "ports", all, NULL, &json, NULL, &err))) {
        coracle_free(json);
        OK(coracle_container_inspect(engine, "ports", 0, &json, &err));
        CHECK(has(json, "\"65535/tcp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"65535\"}]"), "the last port is bound");
        coracle_free(json);
        coracle_container_remove(engine, "ports", CORACLE_REMOVE_FORCE, NULL, NULL);
    }
    /* By the door of requests, too. */
    int32_t status = 0;
    coracle_stream *answer = NULL;
    OK(coracle_http_request(engine, "POST", "/v1.24/containers/create?name=ports", "{\"Content-Type\":\"application/json\"}", all, strlen(all),
                       NULL, &status, &answer, &err));
    CHECK(status == 201, "a request that binds every port");
    coracle_stream_free(answer);
    coracle_container_remove(engine, "ports", CORACLE_REMOVE_FORCE, NULL, NULL);
    free(all);

    snprintf(head, sizeof head, "{\"Image\":\"%s\",\"Labels\":{", image);
    const char *const hostile[][3] = {
        {"{\"Nothing\":[", "[],", "]}"},
        {"{\"Nothing\":{", "\"%d\":[],", "}}"},
        {"{\"Env\":[", "\"\",", "]}"},
        {head, "\"%d\":\"\",", "}}"},
    };
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        char *bad = repeated(hostile[i][0], hostile[i][1], 450000, hostile[i][2]);
        STATUS(CORACLE_EINVALID, coracle_container_create(engine, NULL, bad, NULL, &json, NULL, &err));
        OK(coracle_http_request(engine, "POST", "/v1.24/containers/create", "{\"Content-Type\":\"application/json\"}", bad, strlen(bad), NULL,
                           &status, &answer, &err));
        CHECK(status == 400, "a request that wants memory");
        coracle_stream_free(answer);
        free(bad);
    }
}

static void lenient(char **argv, const char *image) {
    coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
    options.run_dir = argv[2], options.flags = CORACLE_OPEN_LENIENT;
    coracle *engine = NULL;
    char text[512], *json = NULL;
    OK(coracle_open(argv[1], &options, &engine, &err));
    snprintf(text, sizeof text, "{\"Image\":\"%s\",\"Cmd\":[\"true\"],\"HostConfig\":{\"NetworkMode\":\"none\",\"Quantum\":1}}", image);
    char *id = NULL;
    OK(coracle_container_create(engine, "newer", text, NULL, &id, &json, &err));
    coracle_free(id);
    CHECK(has(json, "HostConfig.Quantum is not a known member"), json ? json : "");
    coracle_free(json);
    OK(coracle_container_update(engine, "newer", "{\"Quantum\":1}", NULL, &json, &err));
    CHECK(has(json, "Quantum is not a known member"), json ? json : "");
    coracle_free(json);
    OK(coracle_container_list(engine, "{\"quantum\":true}", &json, &err));
    coracle_free(json);
    OK(coracle_container_remove(engine, "newer", 0, NULL, &err));
    coracle_close(engine);
}

static void seen(coracle_events *events, const char *id) {
    static const char *wanted[] = {"create",     "attach", "start", "attach", "exec_create", "exec_start", "pause", "unpause",
                                   "kill",       "die",    "stop",  "restart", "rename",     "destroy"};
    char all[4096] = " ";
    const char *json = NULL;
    uint64_t last = 0;
    CHECK(coracle_events_fd(events) >= 0, "");
    while (coracle_events_next(events, LONG, &json, &err) == CORACLE_OK) {
        const char *at = strstr(json, "\"sequence\":");
        uint64_t sequence = at ? strtoull(at + 11, NULL, 10) : 0;
        CHECK(sequence > last, json);
        last = sequence;
        if (!has(json, id)) continue;
        size_t used = strlen(all);
        const char *action = member(json, "Action");
        snprintf(all + used, sizeof all - used, "%.*s ", (int)strcspn(action, ":"), action);
        if (!strcmp(action, "destroy")) break;
    }
    STATUS(CORACLE_OK, 0);
    const char *from = all;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", wanted[i]);
        int there = strstr(all, word) != NULL;
        CHECK(there, wanted[i]);
    }
    if (failed) dprintf(report_fd, "events:%s\n", from);
    STATUS(CORACLE_AGAIN, coracle_events_next(events, 0, &json, &err));
}

/* The HTTP API in process: at once, later, and over a private connection. */
static void http(coracle *engine) {
    coracle_stream *stream = NULL;
    coracle_op *op = NULL;
    int32_t status = 0, fd = -1;
    char text[4096];
    OK(coracle_http_request(engine, "GET", "/v1.24/_ping", NULL, NULL, 0, NULL, &status, &stream, &err));
    STATUS(2, coracle_stream_read(stream, text, sizeof text, NULL, &err));
    CHECK(status == 200 && !memcmp(text, "OK", 2), "");
    STATUS(0, coracle_stream_read(stream, text, sizeof text, NULL, &err));
    coracle_stream_free(stream);

    OK(coracle_http_request(engine, "GET", "/v1.24/containers/none/json", "{\"Accept\":\"*/*\"}", NULL, 0, NULL, &status, &stream, &err));
    CHECK(status == 404 && coracle_stream_read(stream, text, sizeof text, NULL, &err) > 0 && has(text, "No such container"), "");
    coracle_stream_free(stream);

    /* Members that no version knows are passed over there, as clients of HTTP expect. */
    static const char newer[] = "{\"Image\":\"no-such-image\",\"Quantum\":1}";
    OK(coracle_http_request(engine, "POST", "/v1.24/containers/create", "{\"Content-Type\":\"application/json\"}", newer, sizeof newer - 1,
                       NULL, &status, &stream, &err));
    CHECK(status == 404 && coracle_stream_read(stream, text, sizeof text, NULL, &err) > 0 && has(text, "no-such-image"), "");
    coracle_stream_free(stream);

    op = nonblocking();
    coracle_result result;
    STATUS(CORACLE_AGAIN, coracle_http_request(engine, "GET", "/v1.24/version", NULL, NULL, 0, op, NULL, NULL, &err));
    STATUS(CORACLE_EMISUSE, coracle_http_request(engine, "GET", "/v1.24/version", NULL, NULL, 0, op, NULL, NULL, &err));
    OK(finish(op, &result));
    CHECK(result.code == 200 && result.stream && readable(coracle_op_fd(op), 0) == 0, "");
    coracle_stream_free(result.stream);
    STATUS(CORACLE_EMISUSE, coracle_op_result(op, &result, &err));
    coracle_op_free(op);

    OK(coracle_http_connect(engine, &fd, &err));
    static const char request[] = "GET /v1.24/_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    CHECK(write(fd, request, sizeof request - 1) == (ssize_t)sizeof request - 1, "");
    size_t used = 0;
    ssize_t count;
    while (used < sizeof text - 1 && ((count = read(fd, text + used, sizeof text - 1 - used)) > 0 || (count < 0 && errno == EINTR)))
        used += count > 0 ? (size_t)count : 0;
    text[used] = 0;
    CHECK(!strncmp(text, "HTTP/1.1 200 OK\r\n", 17) && has(text, "\r\n\r\nOK"), text);
    close(fd);
}

/* Reads output until it has this text. */
static void expect_text(coracle_session *session, const char *text) {
    char all[4096] = "";
    coracle_op *op = within(LONG);
    while (!strstr(all, text)) {
        size_t used = strlen(all);
        int64_t count = coracle_session_read(session, all + used, sizeof all - 1 - used, op, NULL, &err);
        CHECK(count > 0, text);
        if (count <= 0) break;
        all[used + (size_t)count] = 0;
    }
    coracle_op_free(op);
}

/* Calls that are begun: an archive of a descriptor, a container's life, refusals, cancels. */
static void begun(coracle *engine, const char *archive, const char *image) {
    coracle_op *op = nonblocking(), *other = nonblocking();
    coracle_result result = CORACLE_RESULT_INIT;
    int file = open(archive, O_RDONLY | O_CLOEXEC);
    void *user = (void *)(intptr_t)file;
    STATUS(CORACLE_EMISUSE, coracle_op_result(op, &result, &err));
    STATUS(CORACLE_AGAIN, coracle_image_load(engine, coracle_read_fd, user, op, NULL, &err));
    close(file);
    OK(finish(op, &result));
    CHECK(has(result.json, "busybox"), result.json ? result.json : "");
    coracle_free(result.json);
    /* A function of the caller's may come on the caller's thread alone. */
    STATUS(CORACLE_AGAIN, coracle_image_load(engine, read_file, &file, op, NULL, &err));
    STATUS(CORACLE_EMISUSE, finish(op, &result));

    const char *json = body(image, "trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done", "");
    STATUS(CORACLE_EINVALID, coracle_container_create(engine, NULL, "{", op, NULL, NULL, &err));
    STATUS(CORACLE_AGAIN, coracle_container_create(engine, "begun", json, op, NULL, NULL, &err));
    OK(finish(op, &result));
    CHECK(result.id && strlen(result.id) == 64 && has(result.json, result.id), result.json ? result.json : "");
    coracle_free(result.id), coracle_free(result.json);
    STATUS(CORACLE_AGAIN, coracle_container_wait(engine, "begun", "next-exit", other, NULL, NULL, &err));
    coracle_io io = CORACLE_IO_INIT;
    STATUS(CORACLE_AGAIN, coracle_container_start(engine, "begun", &io, op, NULL, &err));
    OK(finish(op, &result));
    CHECK(result.session != NULL, "a session");
    char out[64] = "";
    CHECK(coracle_session_read(result.session, out, sizeof out, NULL, NULL, &err) == 6, out);
    STATUS(CORACLE_EMISUSE, coracle_session_read(result.session, out, sizeof out, op, NULL, &err));
    coracle_op *third = nonblocking();
    STATUS(CORACLE_AGAIN, coracle_session_wait(result.session, third, NULL, &err));
    STATUS(CORACLE_AGAIN, coracle_container_stop(engine, "begun", LONG, op, &err));
    coracle_session *session = result.session;
    OK(finish(op, &result));
    OK(finish(third, &result));
    CHECK(result.code == 4, "");
    coracle_session_free(session);
    coracle_op_free(third);
    OK(finish(other, &result));
    CHECK(result.code == 4, "");
    coracle_free(result.json);
    STATUS(CORACLE_AGAIN, coracle_container_stop(engine, "begun", LONG, op, &err));
    STATUS(CORACLE_UNCHANGED, finish(op, &result));

    /* A wait ends with its operation: by a deadline, by a cancel. */
    STATUS(CORACLE_AGAIN, coracle_container_wait(engine, "begun", "next-exit", op, NULL, NULL, &err));
    coracle_op_set_timeout(op, 20);
    STATUS(CORACLE_ETIMEOUT, finish(op, &result));
    coracle_op_set_timeout(op, -1);
    STATUS(CORACLE_AGAIN, coracle_container_wait(engine, "begun", "next-exit", op, NULL, NULL, &err));
    coracle_op_cancel(op);
    STATUS(CORACLE_ECANCELLED, finish(op, &result));
    STATUS(CORACLE_ECANCELLED, coracle_container_wait(engine, "begun", NULL, op, NULL, NULL, &err));
    STATUS(CORACLE_AGAIN, coracle_container_remove(engine, "begun", 0, other, &err));
    OK(finish(other, &result));
    coracle_op_free(op), coracle_op_free(other);
}

/* Threads of the library that do the work of operations: they have its name, whatever other threads the host has. */
static int threads_of_operations(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[320], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "re");
        if (file && fgets(name, sizeof name, file)) count += !strcmp(name, "coracle-op\n");
        if (file) fclose(file);
    }
    if (tasks) closedir(tasks);
    return count;
}

/* The threads end with the last call, soon. */
static void no_thread_is_left(void) {
    int left = LONG / 10;
    while (threads_of_operations() && left--) usleep(10000);
    CHECK(threads_of_operations() == 0, "threads of operations that are over");
}

/* Each wait for a session's process gets the code: two at once, and those that begin after the end. */
static void ends(coracle *engine, const char *id) {
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    coracle_result result;
    char *exec = NULL;
    OK(coracle_exec_create(engine, id, "{\"Cmd\":[\"sh\",\"-c\",\"read line; exit 5\"],\"AttachStdin\":true}", &exec, &err));
    OK(coracle_exec_start(engine, exec, &io, NULL, &session, &err));
    coracle_op *ops[] = {nonblocking(), nonblocking()};
    for (int i = 0; i < 2; i++) STATUS(CORACLE_AGAIN, coracle_session_wait(session, ops[i], NULL, &err));
    STATUS(3, write_all(session, "go\n"));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            OK(finish(ops[i], &result));
            CHECK(result.code == 5, "a wait that polls");
        }
        coracle_op *op = within(LONG);
        int32_t code = -1;
        OK(coracle_session_wait(session, op, &code, &err));
        CHECK(code == 5, "a wait that blocks");
        coracle_op_free(op);
        for (int i = 0; i < 2; i++) STATUS(CORACLE_AGAIN, coracle_session_wait(session, ops[i], NULL, &err));
    }
    for (int i = 0; i < 2; i++) coracle_op_free(ops[i]);
    coracle_session_free(session);
    coracle_free(exec);
}

/* Many waits take no thread, many calls take few, and a stop takes none while it waits. */
static void many(coracle *engine, const char *image) {
    enum { COUNT = 40 };
    static coracle_op *ops[COUNT];
    char id[65], *exec = NULL;
    coracle_result result;
    if (!create(engine, "deaf", body(image, "trap '' TERM; echo ready; while :; do sleep 0.05; done", ""), id)) return;
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    OK(coracle_container_start(engine, id, &io, NULL, &session, &err));
    expect_text(session, "ready");
    ends(engine, id);
    no_thread_is_left();
    OK(coracle_exec_create(engine, id, "{\"Cmd\":[\"sh\",\"-c\",\"exit 6\"]}", &exec, &err));
    for (int i = 0; i < COUNT; i++) {
        ops[i] = nonblocking();
        coracle_status status = i == 0   ? coracle_session_wait(session, ops[i], NULL, &err)
                                : i == 1 ? coracle_exec_wait(engine, exec, ops[i], NULL, &err)
                                         : coracle_container_wait(engine, id, i % 2 ? "next-exit" : NULL, ops[i], NULL, NULL, &err);
        STATUS(CORACLE_AGAIN, status);
    }
    CHECK(threads_of_operations() == 0, "waits take no thread");
    OK(coracle_exec_start(engine, exec, NULL, NULL, NULL, &err));
    OK(finish(ops[1], &result));
    CHECK(result.code == 6, "the exit code of an exec instance");
    STATUS(CORACLE_AGAIN, coracle_exec_wait(engine, exec, ops[1], NULL, &err));
    OK(finish(ops[1], &result));
    CHECK(result.code == 6, "that has ended before");
    coracle_free(exec);

    /* The container ignores the signal: after a while comes SIGKILL. */
    coracle_op *stop = nonblocking();
    STATUS(CORACLE_AGAIN, coracle_container_stop(engine, id, 300, stop, &err));
    OK(finish(stop, &result));
    for (int i = 0; i < COUNT; i++) {
        if (i == 1) continue;
        OK(finish(ops[i], &result));
        CHECK(result.code == 137, "killed");
        coracle_free(result.json);
    }
    STATUS(CORACLE_AGAIN, coracle_container_stop(engine, id, 300, stop, &err));
    STATUS(CORACLE_UNCHANGED, finish(stop, &result));
    coracle_session_free(session);

    /* A thread that has ended stays in /proc for a moment: none may be left from the calls before. */
    no_thread_is_left();
    int most = 0;
    for (int i = 0; i < COUNT; i++) {
        STATUS(CORACLE_AGAIN, coracle_engine_info(engine, ops[i], NULL, &err));
        int now = threads_of_operations();
        if (now > most) most = now;
    }
    for (int i = 0; i < COUNT; i++) {
        OK(finish(ops[i], &result));
        coracle_free(result.json);
        coracle_op_free(ops[i]);
    }
    CHECK(most <= 16, "threads for many calls");
    coracle_op_free(stop);
    no_thread_is_left();
    OK(coracle_container_remove(engine, id, 0, NULL, &err));
}

/* A restart takes no thread while the container ends, and comes to its start; a kill and a removal by force go on after it.
   A container that goes when it ends stays for its restart. */
static void restarts(coracle *engine, const char *image, int goes) {
    char id[65], json[1024];
    int32_t first = -1, second = -1;
    coracle_result result;
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session = NULL;
    snprintf(json, sizeof json,
             "{\"Image\":\"%s\",\"Cmd\":[\"sh\",\"-c\",\"trap '' TERM HUP; echo ready; while :; do sleep 0.05; done\"],"
             "\"HostConfig\":{\"NetworkMode\":\"none\",\"AutoRemove\":%s}}", image, goes ? "true" : "false");
    if (!create(engine, "stubborn", json, id)) return;
    OK(coracle_container_start(engine, id, &io, NULL, &session, &err));
    expect_text(session, "ready");
    coracle_session_free(session);
    OK(coracle_container_pidfd(engine, id, &first, &err));
    coracle_op *restart = nonblocking(), *other = nonblocking();
    coracle_events *events = NULL;
    const char *sent = NULL;
    OK(coracle_events_open(engine, "{\"filters\":{\"event\":[\"kill\"]}}", &events, &err));
    STATUS(CORACLE_AGAIN, coracle_container_restart_with(engine, id, "{\"signal\":\"HUP\",\"grace_ms\":-1}", restart, &err));
    OK(coracle_events_next(events, LONG, &sent, &err));
    coracle_events_free(events);
    no_thread_is_left();
    STATUS(CORACLE_AGAIN, coracle_op_result(restart, &(coracle_result)CORACLE_RESULT_INIT, &err));
    /* The container ignores the signal of the restart. */
    STATUS(CORACLE_AGAIN, coracle_container_kill(engine, id, NULL, other, &err));
    OK(finish(other, &result));
    OK(finish(restart, &result));
    OK(coracle_container_pidfd(engine, id, &second, &err));
    struct pollfd ends[2] = {{first, POLLIN, 0}, {second, POLLIN, 0}};
    CHECK(poll(ends, 2, 0) == 1 && ends[0].revents, "the first process has ended, and the second runs");
    close(first), close(second);
    STATUS(CORACLE_AGAIN, coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, other, &err));
    OK(finish(other, &result));
    STATUS(CORACLE_AGAIN, coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, other, &err));
    STATUS(CORACLE_ENOT_FOUND, finish(other, &result));
    STATUS(CORACLE_AGAIN, coracle_container_kill(engine, id, NULL, other, &err));
    STATUS(CORACLE_ENOT_FOUND, finish(other, &result));
    coracle_op_free(restart), coracle_op_free(other);
    no_thread_is_left();
}

/* A client that connects to a socket's address gets an answer. */
static void asks(const struct sockaddr_un *at, socklen_t length) {
    static const char request[] = "GET /_ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    char text[1024];
    size_t used = 0;
    ssize_t count;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fd, (const struct sockaddr *)at, length) == 0, "connect");
    CHECK(write(fd, request, sizeof request - 1) == (ssize_t)sizeof request - 1, "");
    while (used < sizeof text - 1 && ((count = read(fd, text + used, sizeof text - 1 - used)) > 0 || (count < 0 && errno == EINTR)))
        used += count > 0 ? (size_t)count : 0;
    text[used] = 0;
    CHECK(has(text, "200 OK") && has(text, "\r\n\r\nOK"), text);
    close(fd);
}

/* The API on a socket that was there before, and on one that the library makes; settings read again. */
static void serves(coracle *engine, const char *run) {
    coracle_http_server *server = NULL;
    coracle_events *events = NULL;
    const char *event = NULL;
    char *json = NULL, text[1200];
    struct sockaddr_un given = {.sun_family = AF_UNIX}, made = {.sun_family = AF_UNIX};
    socklen_t length = sizeof given;
    int32_t listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listening, (struct sockaddr *)&given, sizeof(sa_family_t)) == 0 && listen(listening, 4) == 0, "a socket");
    CHECK(getsockname(listening, (struct sockaddr *)&given, &length) == 0, "its name");
    snprintf(made.sun_path, sizeof made.sun_path, "%s/api", run);
    snprintf(text, sizeof text, "{\"Addresses\":[\"unix://%s/api\"]}", run);
    OK(coracle_http_serve(engine, text, &listening, 1, &server, &err));
    OK(coracle_http_server_addresses(server, &json, &err));
    snprintf(text, sizeof text, "\"unix://%s/api\"]", run);
    CHECK(has(json, text), json);
    coracle_free(json);
    asks(&given, length);
    asks(&made, sizeof made);
    OK(coracle_events_open(engine, "{\"filters\":{\"type\":[\"daemon\"]}}", &events, &err));
    OK(coracle_engine_reload(engine, "[\"a=b\"]", "{\"debug\":\"true\"}", &err));
    OK(coracle_events_next(events, LONG, &event, &err));
    CHECK(has(event, "reload") && has(event, "a=b") && has(event, "\"debug\":\"true\""), event);
    coracle_events_free(events);
    OK(coracle_engine_info(engine, NULL, &json, &err));
    CHECK(has(json, "\"Labels\":[\"a=b\"]"), json);
    coracle_free(json);
    OK(coracle_engine_reload(engine, "[]", NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_http_server_shutdown(server, -1, NULL, &err));
    OK(coracle_http_server_shutdown(server, LONG, NULL, &err));
    OK(coracle_http_server_shutdown(server, LONG, NULL, &err));
    CHECK(access(made.sun_path, F_OK) != 0, "its socket is gone");
    coracle_http_server_free(server);
    close(listening);
}

int main(int argc, char **argv) {
    static const char script[] = "trap 'echo bye; exit 3' TERM; echo ready; while read line; do echo out $line; echo err $line >&2; "
                                 "done; while :; do sleep 0.05; done";
    if (argc != 4) return 2;
    coracle *engine = open_root(argv);
    coracle_events *events = NULL;
    char *image = NULL, *json = NULL, id[65];
    OK(coracle_engine_version(engine, &json, &err));
    CHECK(has(json, "\"ApiVersion\":\"1.24\""), json ? json : "");
    coracle_free(json);
    OK(coracle_engine_info(engine, NULL, &json, &err));
    CHECK(has(json, "\"Containers\":0"), "");
    coracle_free(json);
    OK(coracle_events_open(engine, NULL, &events, &err));
    images(engine, argv[3], &image);
    if (create(engine, "main-job", body(image, script, "\"OpenStdin\":true,\"StdinOnce\":false,"), id)) {
        talk(engine, id);
        execs(engine, id);
        logs(engine, id);
        life(engine, id);
        /* A step that failed must not leave it. */
        coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, NULL, NULL);
        seen(events, id);
    }
    prune(engine, image);
    every_port(engine, image);
    lenient(argv, image);
    begun(engine, argv[3], image);
    many(engine, image);
    restarts(engine, image, 0);
    restarts(engine, image, 1);
    http(engine);
    serves(engine, argv[2]);
    coracle_events_free(events);
    free(image);
    coracle_close(engine);
    return summary();
}
