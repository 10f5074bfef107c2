/* The native half of host.js: look(root, run), job(root, run, image) as a promise, open(root, run), connect(), close(). */
#include "coracle.h"

#include <node_api.h>
#include <stdlib.h>
#include <string.h>

char *host_look(const char *root, const char *run);
int host_job(const char *root, const char *run, const char *image, int report);
void host_free(char *text);

static coracle *engine;

struct work {
    char text[3][4096];
    int result;
    napi_deferred promise;
    napi_async_work work;
};

static void strings(napi_env env, napi_callback_info info, char text[3][4096]) {
    size_t count = 3;
    napi_value values[3];
    napi_get_cb_info(env, info, &count, values, NULL, NULL);
    for (size_t i = 0; i < count && i < 3; i++) napi_get_value_string_utf8(env, values[i], text[i], 4096, NULL);
}

static napi_value number(napi_env env, int value) {
    napi_value answer;
    napi_create_int32(env, value, &answer);
    return answer;
}

static napi_value look(napi_env env, napi_callback_info info) {
    char text[3][4096] = {"", "", ""};
    napi_value answer;
    strings(env, info, text);
    char *found = host_look(text[0], text[1]);
    napi_create_string_utf8(env, found, NAPI_AUTO_LENGTH, &answer);
    host_free(found);
    return answer;
}

static void work_job(napi_env env, void *data) {
    struct work *work = data;
    (void)env;
    work->result = host_job(work->text[0], work->text[1], work->text[2], 2);
}

static void job_done(napi_env env, napi_status status, void *data) {
    struct work *work = data;
    (void)status;
    napi_resolve_deferred(env, work->promise, number(env, work->result));
    napi_delete_async_work(env, work->work);
    free(work);
}

static napi_value job(napi_env env, napi_callback_info info) {
    struct work *work = calloc(1, sizeof *work);
    napi_value promise, name;
    strings(env, info, work->text);
    napi_create_promise(env, &work->promise, &promise);
    napi_create_string_utf8(env, "job", NAPI_AUTO_LENGTH, &name);
    napi_create_async_work(env, NULL, name, work_job, job_done, work, &work->work);
    napi_queue_async_work(env, work->work);
    return promise;
}

static napi_value open_engine(napi_env env, napi_callback_info info) {
    char text[3][4096] = {"", "", ""};
    coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
    strings(env, info, text);
    options.run_dir = text[1];
    return number(env, coracle_open(text[0], &options, &engine, NULL));
}

static napi_value connect_engine(napi_env env, napi_callback_info info) {
    int32_t fd = -1;
    (void)info;
    coracle_status status = coracle_http_connect(engine, &fd, NULL);
    return number(env, status < 0 ? status : fd);
}

static napi_value close_engine(napi_env env, napi_callback_info info) {
    (void)info;
    coracle_close(engine);
    return number(env, 0);
}

NAPI_MODULE_INIT() {
    static const struct { const char *name; napi_callback call; } all[] = {
        {"look", look}, {"job", job}, {"open", open_engine}, {"connect", connect_engine}, {"close", close_engine}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        napi_value function;
        napi_create_function(env, all[i].name, NAPI_AUTO_LENGTH, all[i].call, NULL, &function);
        napi_set_named_property(env, exports, all[i].name, function);
    }
    return exports;
}
