/* member ROOT RUN SECONDS SEED OUT: one program of the crowd (tests/suite/container_crowd.rs), by the C interface: random calls on the
 * same few containers. OUT gets, as JSON, how many calls of each kind changed something. */
#include "coracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const NAMES[] = {"ash", "birch", "cedar", "dogwood", "elm"};
static const char CREATE[] = "{\"Image\":\"busybox\",\"Cmd\":[\"sh\",\"-c\",\"trap 'exit 0' TERM; while :; do sleep 0.02; done\"],"
                             "\"HostConfig\":{\"NetworkMode\":\"none\"}}";
static unsigned long long state;
static char answer[65536];

static unsigned below(unsigned limit) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % limit;
}

/* One request; its body is in `answer`. */
static int ask(coracle *engine, const char *method, const char *target, const char *body) {
    coracle_error *error = NULL;
    coracle_stream *stream = NULL;
    int32_t status = 0;
    if (coracle_http_request(engine, method, target, "{\"Content-Type\":\"application/json\"}", body, body ? strlen(body) : 0, NULL,
                        &status, &stream, &error) < 0) {
        fprintf(stderr, "%s %s: %s\n", method, target, coracle_error_message(error));
        exit(1);
    }
    size_t used = 0;
    int64_t count;
    while ((count = coracle_stream_read(stream, answer + used, sizeof answer - 1 - used, NULL, &error)) > 0) used += (size_t)count;
    answer[used] = 0;
    coracle_stream_free(stream);
    int expected = status < 400 || status == 404 || status == 409 || (status == 400 && strstr(answer, "same name")) ||
                   (status == 500 && strstr(answer, "is not paused"));
    if (!expected) {
        fprintf(stderr, "%s %s: %d %s\n", method, target, status, answer);
        exit(1);
    }
    return status;
}

int main(int count, char **words) {
    if (count != 6) return 2;
    coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
    options.run_dir = words[2];
    options.config_json = "{\"durability\":\"off\"}";
    coracle *engine = NULL;
    coracle_error *error = NULL;
    if (coracle_open(words[1], &options, &engine, &error) < 0) {
        fprintf(stderr, "open: %s\n", coracle_error_message(error));
        return 1;
    }
    static const struct {
        const char *kind, *method, *target, *body;
        int done;
    } CALLS[] = {
        {"create", "POST", "/v1.24/containers/create?name=%s", CREATE, 201},
        {"start", "POST", "/v1.24/containers/%s/start", NULL, 204},
        {"stop", "POST", "/v1.24/containers/%s/stop?t=0", NULL, 204},
        {"", "POST", "/v1.24/containers/%s/kill", NULL, 0},
        {"pause", "POST", "/v1.24/containers/%s/pause", NULL, 204},
        {"unpause", "POST", "/v1.24/containers/%s/unpause", NULL, 204},
        {"destroy", "DELETE", "/v1.24/containers/%s?force=1", NULL, 204},
        {"exec_create", "POST", "/v1.24/containers/%s/exec", "{\"Cmd\":[\"true\"]}", 201},
        {"rename", "POST", "/v1.24/containers/%s/rename?name=%s", NULL, 204},
        {"", "GET", "/v1.24/containers/%s/json", NULL, 0},
        {"", "GET", "/v1.24/containers/json?all=1", NULL, 0},
        {"", "GET", "/v1.24/containers/%s/logs?stdout=1", NULL, 0},
    };
    enum { KINDS = sizeof CALLS / sizeof *CALLS };
    int changed[KINDS] = {0};
    time_t end = time(NULL) + atoi(words[3]);
    state = strtoull(words[4], NULL, 10) * 7919 + 1;
    while (time(NULL) < end) {
        unsigned kind = below(KINDS);
        char target[200];
        snprintf(target, sizeof target, CALLS[kind].target, NAMES[below(5)], NAMES[below(5)]);
        changed[kind] += ask(engine, CALLS[kind].method, target, CALLS[kind].body) == CALLS[kind].done;
    }
    coracle_close(engine);
    FILE *out = fopen(words[5], "w");
    if (!out) return 1;
    for (int kind = 0; kind < KINDS; kind++)
        if (*CALLS[kind].kind) fprintf(out, "%c\"%s\":%d", kind ? ',' : '{', CALLS[kind].kind, changed[kind]);
    fprintf(out, "}");
    return fclose(out) != 0;
}
