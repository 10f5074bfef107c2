/* Builds an image, and shows what the builder says: build ROOT. The root has the image busybox. */
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

/* A record is a document such as {"stream": "..."}; other than 0 would end the build. */
static int32_t show(void *user, const char *record) {
    (void)user;
    if (record) puts(record);
    return 0;
}

int main(int count, char **arguments) {
    coracle *engine;
    coracle_op *op;
    char *id, *removed;
    const char *query = "{\"file\": \"FROM busybox\\nRUN echo hello > /greeting\\nCMD [\\\"cat\\\", \\\"/greeting\\\"]\\n\","
                        " \"t\": [\"greeting:c\"], \"networkmode\": \"none\"}";
    check(coracle_open(count > 1 ? arguments[1] : "/var/lib/coracle", NULL, &engine, &error));

    /* At most ten minutes; the records come on this thread, during the call. */
    check(coracle_op_new(0, &op, &error));
    coracle_op_set_timeout(op, 600000);
    coracle_op_set_progress(op, show, NULL, NULL, 0);
    /* A context is needed where the file copies from it: a tar, or by coracle_image_build_dir a directory. */
    check(coracle_image_build(engine, query, NULL, NULL, op, &id, &error));
    printf("built %s\n", id);
    coracle_free(id);
    coracle_op_free(op);

    check(coracle_image_remove(engine, "greeting:c", 0, NULL, &removed, &error));
    coracle_free(removed);
    coracle_close(engine);
    return 0;
}
