/* hello ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds. */
#include <coracle.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static coracle_error *error;

static int64_t check(int64_t result) {
    if (result >= 0) return result;
    fprintf(stderr, "%s\n", error ? coracle_error_message(error) : coracle_status_name((coracle_status)result));
    exit(1);
}

static void hello(coracle *engine) {
    char *id, piece[4096];
    const char *body = "{\"Image\": \"busybox\", \"Cmd\": [\"echo\", \"hello\"], \"HostConfig\": {\"NetworkMode\": \"none\"}}";
    check(coracle_container_create(engine, NULL, body, NULL, &id, NULL, &error));
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session;
    check(coracle_container_start(engine, id, &io, NULL, &session, &error));
    int32_t channel, code;
    int64_t length;
    while ((length = check(coracle_session_read(session, piece, sizeof piece, NULL, &channel, &error))) > 0) fwrite(piece, 1, (size_t)length, stdout);
    fflush(stdout);
    check(coracle_session_wait(session, NULL, &code, &error));
    coracle_session_free(session);
    check(coracle_container_remove(engine, id, 0, NULL, &error));
    coracle_free(id);
    while (getchar() != EOF) {}
}

static void calls(coracle *engine, long count) {
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (long done = 0; done < count; done++) {
        char *list;
        check(coracle_container_list(engine, "{\"all\":false}", &list, &error));
        coracle_free(list);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%ld\n", ((now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec - begun.tv_nsec) / count);
}

int main(int count, char **arguments) {
    coracle *engine;
    check(coracle_open(arguments[1], NULL, &engine, &error));
    if (count > 2) calls(engine, atol(arguments[2]));
    else hello(engine);
    coracle_close(engine);
    return 0;
}
