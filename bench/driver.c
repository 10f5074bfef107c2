/*
 * What the bench measures of Coracle, through the C ABI, in one process that stays: as a program would link it.
 *
 *   driver ROOT RUN
 *
 * It reads one order a line and answers `ok NANOSECONDS [TEXT]` or `error TEXT`:
 *   spawn PROGRAM ARG...   posix_spawn of a program and its wait: the peers, and the machine's own speed
 *   load FILE              load an archive
 *   rmi NAME               remove an image
 *   life BODY              create, start, wait, remove
 *   start NAME BODY        create and start, not waited for; TEXT is the id
 *   exec ID BODY           a second process: create, start attached, wait
 *   list                   all containers; TEXT is how many bytes of JSON
 *   stats ID COUNT         one sample COUNT times; NANOSECONDS of processor time for each
 *   remove ID              remove by force
 * BODY is JSON without spaces at its ends, to the end of the line.
 */
#define _GNU_SOURCE
#include "coracle.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static coracle *engine;
static coracle_error *failure;

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Whether a status is an error; positive ones (done, unchanged) are not. */
static int bad(coracle_status status) { return status < 0; }

static void answer(long long started, int failed, const char *text) {
    if (failed) {
        printf("error %s\n", failure ? coracle_error_message(failure) : text ? text : "failed");
    } else {
        printf("ok %lld %s\n", now() - started, text ? text : "");
    }
    coracle_error_free(failure);
    failure = NULL;
    fflush(stdout);
}

/* The id in `{"Id":"...",...}`. */
static int id_of(const char *json, char id[65]) {
    const char *at = strstr(json, "\"Id\":\"");
    if (!at || strlen(at + 6) < 64) return 0;
    memcpy(id, at + 6, 64);
    id[64] = 0;
    return 1;
}

static int create(const char *name, const char *body, char id[65]) {
    char *json = NULL;
    if (bad(coracle_container_create(engine, name, body, NULL, &json, &failure))) return 0;
    int found = id_of(json, id);
    coracle_free(json);
    return found;
}

static void life(const char *body) {
    char id[65];
    int32_t code = -1;
    long long started = now();
    int ok = create(NULL, body, id) && !bad(coracle_container_start(engine, id, NULL, NULL, NULL, &failure)) &&
             !bad(coracle_container_wait(engine, id, NULL, &code, &failure)) &&
             !bad(coracle_container_remove(engine, id, 0, NULL, &failure));
    answer(started, !ok || code != 0, "the exit code is not 0");
}

static void start(char *words) {
    char id[65] = "";
    char *body = strchr(words, ' ');
    if (!body) return answer(0, 1, "start NAME BODY");
    *body++ = 0;
    long long started = now();
    int ok = create(words, body, id) && !bad(coracle_container_start(engine, id, NULL, NULL, NULL, &failure));
    answer(started, !ok, ok ? id : NULL);
}

static void exec(char *words) {
    char *body = strchr(words, ' ');
    if (!body) return answer(0, 1, "exec ID BODY");
    *body++ = 0;
    char *id = NULL;
    int32_t code = -1;
    coracle_session *session = NULL;
    coracle_io io = {.size = sizeof io, .fd_in = -1, .fd_out = -1, .fd_err = -1};
    long long started = now();
    int ok = !bad(coracle_exec_create(engine, words, body, &id, &failure)) &&
             !bad(coracle_exec_start(engine, id, &io, NULL, &session, &failure)) &&
             !bad(coracle_session_wait(session, NULL, &code, &failure));
    coracle_session_free(session);
    answer(started, !ok || code != 0, "the exit code is not 0");
    coracle_free(id);
}

static int64_t read_file(void *user, void *buffer, size_t length) { return read(*(int *)user, buffer, length); }

static void load(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return answer(0, 1, "cannot open the archive");
    char *json = NULL;
    long long started = now();
    coracle_status status = coracle_image_load(engine, read_file, &file, NULL, &json, &failure);
    answer(started, bad(status), NULL);
    coracle_free(json);
    close(file);
}

static void rmi(const char *name) {
    char *json = NULL;
    long long started = now();
    coracle_status status = coracle_image_remove(engine, name, 0, &json, &failure);
    answer(started, bad(status), NULL);
    coracle_free(json);
}

static long long used(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int sample(const char *id) {
    coracle_stream *stream = NULL;
    coracle_frame frame = {.size = sizeof frame};
    int ok = !bad(coracle_container_stats(engine, id, "{\"stream\":false,\"one-shot\":true}", &stream, &failure)) &&
             coracle_stream_next(stream, &frame, NULL, &failure) == CORACLE_OK && frame.len > 0;
    coracle_stream_free(stream);
    return ok;
}

static void stats(char *words) {
    char *number = strchr(words, ' ');
    int count = number ? atoi(number + 1) : 0;
    if (count <= 0) return answer(0, 1, "stats ID COUNT");
    *number = 0;
    long long started = used();
    for (int i = 0; i < count; i++) {
        if (!sample(words)) return answer(0, 1, "no sample");
    }
    printf("ok %lld\n", (used() - started) / count);
    fflush(stdout);
}

static void list(void) {
    char *json = NULL, size[32] = "";
    long long started = now();
    coracle_status status = coracle_container_list(engine, "{\"all\":true}", &json, &failure);
    if (!bad(status)) snprintf(size, sizeof size, "%zu", strlen(json));
    answer(started, bad(status), size);
    coracle_free(json);
}

/* Python's own start of a program takes longer than some of what is measured here: so the peers are started here. */
static void spawn(char *words) {
    enum { MOST = 32 };
    char *arguments[MOST + 1], *rest = words;
    int count = 0;
    while (count < MOST && (arguments[count] = strsep(&rest, " ")) != NULL) count++;
    arguments[count] = NULL;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    pid_t pid;
    int status = -1;
    long long started = now();
    int failed = posix_spawnp(&pid, arguments[0], &quiet, NULL, arguments, environ) || waitpid(pid, &status, 0) < 0;
    answer(started, failed || status != 0, "the program failed");
    posix_spawn_file_actions_destroy(&quiet);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: driver ROOT RUN\n");
        return 2;
    }
    coracle_open_options options = {.size = sizeof options, .run_dir = argv[2]};
    if (bad(coracle_open(argv[1], &options, &engine, &failure))) {
        fprintf(stderr, "driver: %s\n", failure ? coracle_error_message(failure) : "open failed");
        return 1;
    }
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    while ((length = getline(&line, &size, stdin)) > 0) {
        if (line[length - 1] == '\n') line[length - 1] = 0;
        char *rest = strchr(line, ' ');
        rest = rest ? (*rest = 0, rest + 1) : line + strlen(line);
        if (!strcmp(line, "life")) life(rest);
        else if (!strcmp(line, "exec")) exec(rest);
        else if (!strcmp(line, "start")) start(rest);
        else if (!strcmp(line, "load")) load(rest);
        else if (!strcmp(line, "rmi")) rmi(rest);
        else if (!strcmp(line, "list")) list();
        else if (!strcmp(line, "stats")) stats(rest);
        else if (!strcmp(line, "spawn")) spawn(rest);
        else if (!strcmp(line, "remove")) {
            long long started = now();
            answer(started, bad(coracle_container_remove(engine, rest, CORACLE_REMOVE_FORCE, NULL, &failure)), NULL);
        } else answer(0, 1, "unknown order");
    }
    free(line);
    coracle_close(engine);
    return 0;
}
