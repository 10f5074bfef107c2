/* Stops 50 containers at once from one poll loop, without a thread for each: poll ROOT. The root has the image busybox. */
#include <coracle.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 50 };

static coracle_error *error;

/* Ends the program where a call failed; a result above 0 is a success with a remark. */
static coracle_status check(coracle_status status) {
    if (status >= 0) return status;
    fprintf(stderr, "%s: %s\n", coracle_status_name(status), error ? coracle_error_message(error) : "");
    exit(1);
}

int main(int count, char **arguments) {
    coracle *engine;
    coracle_op *stops[COUNT], *ends[COUNT];
    char *ids[COUNT];
    const char *body = "{\"Image\": \"busybox\", \"Cmd\": [\"sh\", \"-c\", \"trap 'exit 7' TERM; while :; do sleep 0.1; done\"],"
                       " \"HostConfig\": {\"NetworkMode\": \"none\"}}";
    check(coracle_open(count > 1 ? arguments[1] : "/var/lib/coracle", NULL, &engine, &error));
    for (int i = 0; i < COUNT; i++) {
        check(coracle_container_create(engine, NULL, body, NULL, &ids[i], NULL, &error));
        check(coracle_container_start(engine, ids[i], NULL, NULL, NULL, &error));
    }

    /* Every call returns CORACLE_AGAIN at once. Each of these operations has a descriptor that polls for its answer. */
    for (int i = 0; i < COUNT; i++) {
        check(coracle_op_new(CORACLE_OP_NONBLOCK, &stops[i], &error));
        check(coracle_op_new(CORACLE_OP_NONBLOCK, &ends[i], &error));
        check(coracle_container_wait(engine, ids[i], NULL, ends[i], NULL, NULL, &error));
        check(coracle_container_stop(engine, ids[i], 2000, stops[i], &error));
    }

    int left = 2 * COUNT, stopped = 0, ended = 0;
    struct pollfd set[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; i++) {
        set[i].fd = coracle_op_fd(i < COUNT ? stops[i] : ends[i - COUNT]);
        set[i].events = POLLIN;
    }
    while (left > 0) {
        if (poll(set, 2 * COUNT, -1) < 0 && errno != EINTR) return 1;
        for (int i = 0; i < 2 * COUNT; i++) {
            coracle_result result = CORACLE_RESULT_INIT;
            if (set[i].fd < 0 || !set[i].revents) continue;
            if (check(coracle_op_result(i < COUNT ? stops[i] : ends[i - COUNT], &result, &error)) == CORACLE_AGAIN) continue;
            if (i < COUNT) stopped++;
            else if (result.code >= 0) ended++;
            coracle_free(result.json);
            set[i].fd = -1;
            left--;
        }
    }
    printf("%d containers stopped, %d told their exit codes\n", stopped, ended);

    for (int i = 0; i < COUNT; i++) {
        coracle_op_free(stops[i]);
        coracle_op_free(ends[i]);
        check(coracle_container_remove(engine, ids[i], 0, NULL, &error));
        coracle_free(ids[i]);
    }
    coracle_close(engine);
    return stopped == COUNT && ended == COUNT ? 0 : 1;
}
