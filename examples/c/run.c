/* Runs a container, and reads its output: run ROOT. The root has the image busybox. */
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
    const char *body = "{\"Image\": \"busybox\", \"Cmd\": [\"sh\", \"-c\", \"echo output; echo errors >&2; exit 3\"],"
                       " \"HostConfig\": {\"NetworkMode\": \"none\"}}";
    check(coracle_open(count > 1 ? arguments[1] : "/var/lib/coracle", NULL, &engine, &error));
    check(coracle_container_create(engine, "example-run", body, NULL, &id, NULL, &error));
    coracle_free(id);

    /* The session is there before the program runs, so no byte is missed. */
    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session;
    check(coracle_container_start(engine, "example-run", &io, NULL, &session, &error));
    char piece[4096];
    int32_t channel, code;
    int64_t length;
    while ((length = check(coracle_session_read(session, piece, sizeof piece, NULL, &channel, &error))) > 0) {
        printf("%s: %.*s", channel == CORACLE_STDERR ? "stderr" : "stdout", (int)length, piece);
    }
    check(coracle_session_wait(session, NULL, &code, &error));
    printf("exit code %d\n", code);
    coracle_session_free(session);
    check(coracle_container_remove(engine, "example-run", 0, NULL, &error));
    coracle_close(engine);
    return 0;
}
