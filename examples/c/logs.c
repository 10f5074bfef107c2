/* Follows a container's log while the container runs: logs ROOT. The root has the image busybox. */
#include <coracle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static coracle_error *error;

/* Ends the program where a call failed; a result above 0 is a success with a remark, or a count. */
static int64_t check(int64_t result) {
    if (result >= 0) return result;
    fprintf(stderr, "%s: %s\n", coracle_status_name((coracle_status)result), error ? coracle_error_message(error) : "");
    exit(1);
}

int main(int count, char **arguments) {
    coracle *engine;
    char *id;
    const char *body = "{\"Image\": \"busybox\", \"Cmd\": [\"sh\", \"-c\", \"for i in 1 2 3; do echo line $i; sleep 0.1; done\"],"
                       " \"HostConfig\": {\"NetworkMode\": \"none\"}}";
    check(coracle_open(count > 1 ? arguments[1] : "/var/lib/coracle", NULL, &engine, &error));
    check(coracle_container_create(engine, "example-logs", body, NULL, &id, NULL, &error));
    coracle_free(id);
    check(coracle_container_start(engine, "example-logs", NULL, NULL, NULL, &error));

    /* Each frame is a line; its bytes are valid until the next call. CORACLE_DONE comes after the container's end. */
    coracle_stream *log;
    coracle_frame line = CORACLE_FRAME_INIT;
    check(coracle_container_logs(engine, "example-logs", "{\"follow\": true}", NULL, &log, &error));
    while (check(coracle_stream_next(log, NULL, &line, &error)) == CORACLE_OK) {
        printf("%lld %s: %.*s", (long long)line.time_ns, line.channel == CORACLE_STDERR ? "stderr" : "stdout",
               (int)line.len, (const char *)line.data);
    }
    /* A reader that is slower than the rotation of the log misses lines, and learns how many. */
    printf("%lld lines were missed\n", (long long)check(coracle_stream_lost(log)));
    coracle_stream_free(log);

    int32_t code;
    check(coracle_container_wait(engine, "example-logs", NULL, NULL, &code, NULL, &error));
    check(coracle_container_remove(engine, "example-logs", 0, NULL, &error));
    coracle_close(engine);
    return 0;
}
