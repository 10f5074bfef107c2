/* Runs a second process in a container, and writes its stdin: exec ROOT. The root has the image busybox. */
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
    char *id, *exec;
    const char *body = "{\"Image\": \"busybox\", \"Cmd\": [\"sleep\", \"1000\"], \"HostConfig\": {\"NetworkMode\": \"none\"}}";
    const char *sort = "{\"Cmd\": [\"sort\"], \"AttachStdin\": true, \"AttachStdout\": true, \"AttachStderr\": true}";
    check(coracle_open(count > 1 ? arguments[1] : "/var/lib/coracle", NULL, &engine, &error));
    check(coracle_container_create(engine, "example-exec", body, NULL, &id, NULL, &error));
    coracle_free(id);
    check(coracle_container_start(engine, "example-exec", NULL, NULL, NULL, &error));

    coracle_io io = CORACLE_IO_INIT;
    coracle_session *session;
    check(coracle_exec_create(engine, "example-exec", sort, &exec, &error));
    check(coracle_exec_start(engine, exec, &io, NULL, &session, &error));
    coracle_free(exec);
    /* A write may take less than it is given. Input that is longer than a socket holds needs a thread of its own. */
    const char *input = "pear\napple\nfig\n";
    for (size_t left = strlen(input); left > 0;) {
        int64_t written = check(coracle_session_write(session, input, left, NULL, &error));
        input += written;
        left -= (size_t)written;
    }
    /* sort answers when its input has ended. */
    check(coracle_session_close_stdin(session, &error));
    char piece[4096];
    int32_t channel, code;
    int64_t length;
    while ((length = check(coracle_session_read(session, piece, sizeof piece, NULL, &channel, &error))) > 0) {
        fwrite(piece, 1, (size_t)length, stdout);
    }
    check(coracle_session_wait(session, NULL, &code, &error));
    printf("exit code %d\n", code);
    coracle_session_free(session);
    check(coracle_container_remove(engine, "example-exec", CORACLE_REMOVE_FORCE, NULL, &error));
    coracle_close(engine);
    return 0;
}
