/* Follows the events of a root, while a container is made, run and removed: events ROOT. The root has the image
   busybox. */
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
    coracle_events *events;
    char *id;
    int32_t code;
    const char *body = "{\"Image\": \"busybox\", \"Cmd\": [\"true\"], \"HostConfig\": {\"NetworkMode\": \"none\"}}";
    check(coracle_open(count > 1 ? arguments[1] : "/var/lib/coracle", NULL, &engine, &error));
    /* Events of every program on the root, from here on. */
    check(coracle_events_open(engine, "{\"filters\": {\"type\": [\"container\"]}}", &events, &error));

    check(coracle_container_create(engine, "example-events", body, NULL, &id, NULL, &error));
    coracle_free(id);
    check(coracle_container_start(engine, "example-events", NULL, NULL, NULL, &error));
    check(coracle_container_wait(engine, "example-events", NULL, NULL, &code, NULL, &error));
    check(coracle_container_remove(engine, "example-events", 0, NULL, &error));

    /* coracle_events_fd is for event loops; this program waits up to 30 seconds for each event. */
    const char *event;
    while (check(coracle_events_next(events, 30000, &event, &error)) == CORACLE_OK) {
        puts(event);
        if (strstr(event, "\"Action\":\"destroy\"") && strstr(event, "example-events")) break;
    }
    coracle_events_free(events);
    coracle_close(engine);
    return 0;
}
