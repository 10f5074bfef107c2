/*
 * Misuse gives errors, never crashes: NULL, text that is not UTF-8, wrong JSON, unknown flags, handles that are closed,
 * foreign or garbage, a forked child, callbacks that refuse, pipes that nobody reads. See check.h for how it is called.
 */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static const char *const BAD = "\xff\xfe";
#define NOWHERE NULL

/* The last error's message must hold this text; frees it. */
#define MESSAGE(wanted, call, text)                                                                              \
    do {                                                                                                         \
        int64_t got_ = (call);                                                                                   \
        CHECK(got_ == (wanted) && has(coracle_error_message(err), text), coracle_error_message(err));            \
        coracle_error_free(err);                                                                                 \
        err = NULL;                                                                                              \
    } while (0)

/* The last error must have this area, and this in its detail. */
#define DETAIL(wanted, call, area, text)                                                                         \
    do {                                                                                                         \
        int64_t got_ = (call);                                                                                   \
        CHECK(got_ == (wanted) && !strcmp(coracle_error_area(err), area), coracle_error_area(err));              \
        CHECK(has(coracle_error_detail(err), text), coracle_error_detail(err));                                  \
        coracle_error_free(err);                                                                                 \
        err = NULL;                                                                                              \
    } while (0)

/* Every function of an engine with this handle in place of an open one. */
static void every_function(coracle *c, int32_t code) {
    char *s = (char *)1, buffer[8];
    coracle_session *session = (coracle_session *)1;
    coracle_stream *stream = (coracle_stream *)1;
    coracle_events *events = (coracle_events *)1;
    coracle_http_server *server = (coracle_http_server *)1;
    int32_t number = 7;
    STATUS(code, coracle_engine_info(c, NULL, &s, &err));
    STATUS(code, coracle_engine_disk_usage(c, NULL, NULL, &s, &err));
    STATUS(code, coracle_engine_version(c, &s, &err));
    STATUS(code, coracle_root_leftovers(c, &s, &err));
    STATUS(code, coracle_root_sweep(c, NULL, &s, &err));
    STATUS(code, coracle_root_import_docker(c, NULL, NULL, &s, &err));
    STATUS(code, coracle_root_copy(c, "/nowhere/x", NULL, NULL, &s, &err));
    STATUS(code, coracle_container_list(c, NULL, &s, &err));
    STATUS(code, coracle_container_create(c, NULL, "{}", NULL, &s, NULL, &err));
    STATUS(code, coracle_container_inspect(c, "x", 0, &s, &err));
    STATUS(code, coracle_container_start(c, "x", NULL, NULL, &session, &err));
    STATUS(code, coracle_container_stop(c, "x", 0, NULL, &err));
    STATUS(code, coracle_container_restart(c, "x", 0, NULL, &err));
    STATUS(code, coracle_container_stop_with(c, "x", NULL, NULL, &err));
    STATUS(code, coracle_container_restart_with(c, "x", NULL, NULL, &err));
    STATUS(code, coracle_container_kill(c, "x", NULL, NULL, &err));
    STATUS(code, coracle_container_pause(c, "x", NULL, &err));
    STATUS(code, coracle_container_unpause(c, "x", NULL, &err));
    STATUS(code, coracle_container_wait(c, "x", NULL, NULL, &number, &s, &err));
    STATUS(code, coracle_container_pidfd(c, "x", &number, &err));
    STATUS(code, coracle_container_remove(c, "x", 0, NULL, &err));
    STATUS(code, coracle_container_rename(c, "x", "y", &err));
    STATUS(code, coracle_container_top(c, "x", NULL, &s, &err));
    STATUS(code, coracle_container_update(c, "x", "{}", NULL, &s, &err));
    STATUS(code, coracle_container_stats(c, "x", NULL, NULL, &stream, &err));
    STATUS(code, coracle_container_logs(c, "x", NULL, NULL, &stream, &err));
    STATUS(code, coracle_container_attach(c, "x", NULL, NULL, NULL, &session, &err));
    STATUS(code, coracle_exec_create(c, "x", "{}", &s, &err));
    STATUS(code, coracle_exec_start(c, "x", NULL, NULL, &session, &err));
    STATUS(code, coracle_exec_wait(c, "x", NULL, &number, &err));
    STATUS(code, coracle_exec_inspect(c, "x", &s, &err));
    STATUS(code, coracle_events_open(c, NULL, &events, &err));
    STATUS(code, coracle_image_list(c, NULL, &s, &err));
    STATUS(code, coracle_image_load(c, read_file, &number, NULL, &s, &err));
    STATUS(code, coracle_image_import(c, NULL, read_file, &number, NULL, &s, &err));
    STATUS(code, coracle_image_build(c, NULL, read_file, &number, NULL, &s, &err));
    STATUS(code, coracle_image_build_dir(c, NULL, 0, NULL, &s, &err));
    STATUS(code, coracle_image_save(c, "[\"x\"]", NULL, &stream, &err));
    STATUS(code, coracle_network_list(c, NULL, &s, &err));
    STATUS(code, coracle_network_inspect(c, "x", &s, &err));
    STATUS(code, coracle_network_create(c, "{}", NULL, &s, NULL, &err));
    STATUS(code, coracle_network_remove(c, "x", NULL, &err));
    STATUS(code, coracle_lease_hold(c, "x", &(int32_t){0}, &err));
    STATUS(code, coracle_engine_metrics(c, &s, &err));
    STATUS(code, coracle_container_explain(c, "x", &s, &err));
    STATUS(code, coracle_network_release(c, NULL, &err));
    STATUS(code, coracle_network_repair(c, NULL, &err));
    STATUS(code, coracle_network_connect(c, "x", "{}", NULL, &err));
    STATUS(code, coracle_network_disconnect(c, "x", "{}", NULL, &err));
    STATUS(code, coracle_image_pull(c, "x", NULL, NULL, &s, &err));
    STATUS(code, coracle_image_pull_platform(c, "x", NULL, NULL, NULL, &s, &err));
    STATUS(code, coracle_image_push(c, "x", NULL, NULL, &s, &err));
    STATUS(code, coracle_registry_auth(c, "{}", NULL, &s, &err));
    STATUS(code, coracle_registry_inspect(c, "x", NULL, NULL, &s, &err));
    STATUS(code, coracle_image_inspect(c, "x", &s, &err));
    STATUS(code, coracle_image_history(c, "x", &s, &err));
    STATUS(code, coracle_image_tag(c, "x", "y", &err));
    STATUS(code, coracle_image_remove(c, "x", 0, NULL, &s, &err));
    STATUS(code, coracle_image_prune(c, NULL, NULL, &s, &err));
    STATUS(code, coracle_build_prune(c, NULL, NULL, &s, &err));
    STATUS(code, coracle_container_prune(c, NULL, NULL, &s, &err));
    STATUS(code, coracle_volume_prune(c, NULL, NULL, &s, &err));
    STATUS(code, coracle_network_prune(c, NULL, NULL, &s, &err));
    STATUS(code, coracle_image_search(c, "{\"term\":\"x\"}", NULL, NULL, &s, &err));
    STATUS(code, coracle_root_verify(c, NULL, NULL, &s, &err));
    STATUS(code, coracle_container_stat_path(c, "x", "/", NULL, &s, &err));
    STATUS(code, coracle_container_get_archive(c, "x", "/", NULL, &stream, &s, &err));
    STATUS(code, coracle_container_put_archive(c, "x", "/", NULL, read_file, &number, NULL, &err));
    STATUS(code, coracle_container_export(c, "x", NULL, &stream, &err));
    STATUS(code, coracle_container_changes(c, "x", NULL, &s, &err));
    STATUS(code, coracle_container_commit(c, "x", NULL, NULL, NULL, &s, &err));
    STATUS(code, coracle_plugin_list(c, NULL, &s, &err));
    STATUS(code, coracle_plugin_inspect(c, "x", &s, &err));
    STATUS(code, coracle_plugin_privileges(c, "x", NULL, NULL, &s, &err));
    STATUS(code, coracle_plugin_pull(c, "{}", NULL, &s, &err));
    STATUS(code, coracle_plugin_enable(c, "x", 0, NULL, &err));
    STATUS(code, coracle_plugin_disable(c, "x", 0, NULL, &err));
    STATUS(code, coracle_plugin_remove(c, "x", 0, NULL, &err));
    STATUS(code, coracle_plugin_set(c, "x", "[]", &err));
    STATUS(code, coracle_plugin_upgrade(c, "x", "{}", NULL, &err));
    STATUS(code, coracle_volume_list(c, NULL, &s, &err));
    STATUS(code, coracle_volume_create(c, NULL, NULL, &s, NULL, &err));
    STATUS(code, coracle_volume_inspect(c, "x", &s, &err));
    STATUS(code, coracle_volume_remove(c, "x", NULL, &err));
    STATUS(code, coracle_http_request(c, "GET", "/_ping", NULL, NULL, 0, NULL, &number, &stream, &err));
    STATUS(code, coracle_http_connect(c, &number, &err));
    STATUS(code, coracle_http_serve(c, NULL, &number, 1, &server, &err));
    STATUS(code, coracle_engine_reload(c, "[]", NULL, &err));
    CHECK(coracle_ref(c) == NULL, "");
    (void)buffer;
}

static void handles(coracle *engine, char **argv) {
    every_function(NULL, CORACLE_EINVALID);
    every_function((coracle *)0x1234, CORACLE_EMISUSE);
    every_function((coracle *)(uintptr_t)-1, CORACLE_EMISUSE);

    coracle *other = NULL;
    coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
    options.run_dir = argv[2];
    OK(coracle_open(argv[1], &options, &other, &err));
    coracle *again = coracle_ref(other);
    coracle_close(other);
    every_function(other, CORACLE_EMISUSE);
    coracle_close(other);
    coracle_close(NULL);
    char *json = NULL;
    OK(coracle_engine_info(again, NULL, &json, &err));
    coracle_free(json);
    coracle_close(again);
    OK(coracle_engine_info(engine, NULL, &json, &err));
    coracle_free(json);

    /* A handle of another type. */
    coracle_op *op = NULL;
    OK(coracle_op_new(0, &op, &err));
    every_function((coracle *)op, CORACLE_EMISUSE);
    int32_t number = 0;
    char buffer[8];
    coracle_frame frame = CORACLE_FRAME_INIT;
    const char *text = NULL;
    STATUS(CORACLE_EMISUSE, coracle_session_read((coracle_session *)op, buffer, sizeof buffer, NULL, &number, &err));
    STATUS(CORACLE_EMISUSE, coracle_session_write((coracle_session *)op, buffer, sizeof buffer, NULL, &err));
    STATUS(CORACLE_EMISUSE, coracle_session_close_stdin((coracle_session *)op, &err));
    STATUS(CORACLE_EMISUSE, coracle_session_resize((coracle_session *)op, 1, 1, &err));
    STATUS(CORACLE_EMISUSE, coracle_session_wait((coracle_session *)op, NULL, &number, &err));
    CHECK(coracle_session_fd((coracle_session *)op, 0) == CORACLE_EMISUSE, "");
    CHECK(coracle_session_take_fd((coracle_session *)op, 0) == CORACLE_EMISUSE, "");
    CHECK(coracle_stream_fd((coracle_stream *)op) == CORACLE_EMISUSE, "");
    STATUS(CORACLE_EMISUSE, coracle_stream_read((coracle_stream *)op, buffer, sizeof buffer, NULL, &err));
    STATUS(CORACLE_EMISUSE, coracle_stream_next((coracle_stream *)op, NULL, &frame, &err));
    CHECK(coracle_stream_lost((coracle_stream *)op) == CORACLE_EMISUSE, "");
    CHECK(coracle_events_fd((coracle_events *)op) == CORACLE_EMISUSE, "");
    STATUS(CORACLE_EMISUSE, coracle_events_next((coracle_events *)op, 0, &text, &err));
    coracle_session_free((coracle_session *)op);
    coracle_stream_free((coracle_stream *)op);
    coracle_events_free((coracle_events *)op);
    char *addresses = (char *)1;
    STATUS(CORACLE_EMISUSE, coracle_http_server_addresses((coracle_http_server *)op, &addresses, &err));
    STATUS(CORACLE_EMISUSE, coracle_http_server_shutdown((coracle_http_server *)op, 0, NULL, &err));
    coracle_http_server_free((coracle_http_server *)op);
    coracle_http_server_free(NULL);
    coracle_close((coracle *)op);
    coracle_op_free(op);
    coracle_op_free(op);
    coracle_op_free(NULL);
    coracle_op_cancel(op);
    coracle_op_cancel(NULL);
    coracle_op_set_timeout(op, 1);
    coracle_op_set_progress(op, NULL, NULL, NULL, 0);
    CHECK(coracle_op_fd(op) == CORACLE_EMISUSE && coracle_op_fd(NULL) == CORACLE_EINVALID, "");
    coracle_result result = CORACLE_RESULT_INIT;
    STATUS(CORACLE_EMISUSE, coracle_op_result(op, &result, &err));
    STATUS(CORACLE_EINVALID, coracle_op_result(op, NULL, &err));
    CHECK(coracle_read_fd((void *)(intptr_t)-1, buffer, sizeof buffer) == -EBADF, "no descriptor");
    STATUS(CORACLE_EINVALID, coracle_image_load(engine, coracle_read_fd, (void *)(intptr_t)-1, NULL, &json, &err));
    MESSAGE(CORACLE_EINVALID, coracle_op_new(0, NULL, &err), "out is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_op_new(8, &op, &err), "flags");
    OK(coracle_op_new(0, &op, &err));
    MESSAGE(CORACLE_EMISUSE, coracle_op_result(op, &result, &err), "CORACLE_OP_NONBLOCK");
    CHECK(coracle_op_fd(op) == CORACLE_EMISUSE, "an operation that blocks");
    coracle_op_free(op);
    STATUS(CORACLE_EMISUSE, coracle_container_wait(engine, "x", NULL, op, &number, NULL, &err));

    /* Errors of errors. */
    STATUS(CORACLE_ENOT_FOUND, coracle_container_pause(engine, "none", NULL, &err));
    CHECK(coracle_container_pause(engine, "none", NULL, &err) == CORACLE_ENOT_FOUND, "");
    coracle_error *kept = err;
    CHECK(coracle_error_http_status(kept) == 404 && !strcmp(coracle_error_message(kept), "No such container: none"), "");
    coracle_error_free(kept);
    coracle_error_free(kept);
    coracle_error_free(NULL);
    CHECK(!*coracle_error_message(kept) && !*coracle_error_message(NULL) && !*coracle_error_area(NULL), "");
    CHECK(!strcmp(coracle_error_detail(NULL), "{}") && coracle_error_code(NULL) == 0, "");
    CHECK(coracle_error_errno(NULL) == 0 && coracle_error_http_status(NULL) == 0, "");
    err = NULL;
    CHECK(coracle_container_pause(engine, "none", NULL, NULL) == CORACLE_ENOT_FOUND, "err may be NULL");
    err = (coracle_error *)1;
    CHECK(coracle_image_list(engine, NULL, &json, &err) == CORACLE_OK && err == NULL, "err is written on success too");
    coracle_free(json);
}

/* Every place for a text that must be there, with this one: NULL or no UTF-8. */
static void every_text(coracle *c, const char *bad) {
    char *s = NULL;
    coracle_session *session = NULL;
    coracle_stream *stream = NULL;
    int32_t number = 0;
    coracle_op *op = NULL;
    OK(coracle_op_new(0, &op, &err));
    STATUS(CORACLE_EINVALID, coracle_container_create(c, NULL, bad, NULL, &s, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_inspect(c, bad, 0, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_start(c, bad, NULL, NULL, &session, &err));
    STATUS(CORACLE_EINVALID, coracle_container_stop(c, bad, 0, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_restart(c, bad, 0, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_stop_with(c, bad, NULL, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_restart_with(c, bad, NULL, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_registry_inspect(c, bad, NULL, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_kill(c, bad, NULL, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_pause(c, bad, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_unpause(c, bad, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_wait(c, bad, NULL, NULL, &number, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_pidfd(c, bad, &number, &err));
    STATUS(CORACLE_EINVALID, coracle_container_remove(c, bad, 0, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_rename(c, bad, "y", &err));
    STATUS(CORACLE_EINVALID, coracle_network_inspect(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_network_create(c, bad, NULL, &s, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_network_remove(c, bad, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_network_connect(c, bad, "{}", NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_network_disconnect(c, "x", bad, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_rename(c, "x", bad, &err));
    STATUS(CORACLE_EINVALID, coracle_container_top(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_update(c, bad, "{}", NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_update(c, "x", bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_stats(c, bad, NULL, NULL, &stream, &err));
    STATUS(CORACLE_EINVALID, coracle_container_logs(c, bad, NULL, NULL, &stream, &err));
    STATUS(CORACLE_EINVALID, coracle_container_attach(c, bad, NULL, NULL, NULL, &session, &err));
    STATUS(CORACLE_EINVALID, coracle_exec_create(c, bad, "{}", &s, &err));
    STATUS(CORACLE_EINVALID, coracle_exec_create(c, "x", bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_exec_start(c, bad, NULL, NULL, &session, &err));
    STATUS(CORACLE_EINVALID, coracle_exec_wait(c, bad, NULL, &number, &err));
    STATUS(CORACLE_EINVALID, coracle_exec_inspect(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_image_build(c, "{\"t\":3}", read_file, &number, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_image_build_dir(c, bad, 0, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_image_save(c, bad, NULL, &stream, &err));
    STATUS(CORACLE_EINVALID, coracle_container_stat_path(c, bad, "/", NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_stat_path(c, "x", bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_get_archive(c, bad, "/", NULL, &stream, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_get_archive(c, "x", bad, NULL, &stream, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_put_archive(c, bad, "/", NULL, read_file, &number, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_put_archive(c, "x", bad, NULL, read_file, &number, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_export(c, bad, NULL, &stream, &err));
    STATUS(CORACLE_EINVALID, coracle_container_changes(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_commit(c, bad, NULL, NULL, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_volume_inspect(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_volume_remove(c, bad, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_inspect(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_privileges(c, bad, NULL, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_enable(c, bad, 0, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_disable(c, bad, 0, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_remove(c, bad, 0, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_set(c, bad, "[]", &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_upgrade(c, bad, NULL, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_lease_hold(c, bad, &(int32_t){0}, &err));
    STATUS(CORACLE_EINVALID, coracle_image_search(c, bad, NULL, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_image_inspect(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_image_history(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_image_tag(c, bad, "y", &err));
    STATUS(CORACLE_EINVALID, coracle_image_tag(c, "x", bad, &err));
    STATUS(CORACLE_EINVALID, coracle_image_remove(c, bad, 0, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_http_request(c, bad, "/_ping", NULL, NULL, 0, NULL, &number, &stream, &err));
    STATUS(CORACLE_EINVALID, coracle_http_request(c, "GET", bad, NULL, NULL, 0, NULL, &number, &stream, &err));
    coracle_op_free(op);
}

/* Every place for a document, with text that is not a document. */
static void every_document(coracle *c, const char *bad) {
    char *s = NULL;
    coracle_session *session = NULL;
    coracle_stream *stream = NULL;
    coracle_events *events = NULL;
    int32_t number = 0;
    coracle_op *op = NULL;
    OK(coracle_op_new(0, &op, &err));
    STATUS(CORACLE_EINVALID, coracle_container_list(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_create(c, NULL, bad, NULL, &s, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_update(c, "x", bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_stats(c, "x", bad, NULL, &stream, &err));
    STATUS(CORACLE_EINVALID, coracle_container_logs(c, "x", bad, NULL, &stream, &err));
    STATUS(CORACLE_EINVALID, coracle_container_attach(c, "x", NULL, bad, NULL, &session, &err));
    STATUS(CORACLE_EINVALID, coracle_exec_create(c, "x", bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_events_open(c, bad, &events, &err));
    STATUS(CORACLE_EINVALID, coracle_image_list(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_image_import(c, bad, read_file, &number, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_image_prune(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_build_prune(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_prune(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_volume_prune(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_network_prune(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_engine_disk_usage(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_registry_inspect(c, "x", bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_stop_with(c, "x", bad, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_restart_with(c, "x", bad, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_image_search(c, bad, NULL, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_root_verify(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_root_copy(c, "/nowhere/x", bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_root_import_docker(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_root_copy(c, NULL, NULL, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_put_archive(c, "x", "/", bad, read_file, &number, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_container_commit(c, "x", bad, NULL, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_container_commit(c, "x", NULL, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_volume_list(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_list(c, bad, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_pull(c, bad, NULL, &s, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_set(c, "x", bad, &err));
    STATUS(CORACLE_EINVALID, coracle_plugin_upgrade(c, "x", bad, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_volume_create(c, bad, NULL, &s, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_image_save(c, bad, NULL, &stream, &err));
    STATUS(CORACLE_EINVALID, coracle_http_request(c, "GET", "/_ping", bad, NULL, 0, NULL, &number, &stream, &err));
    coracle_op_free(op);
}

static void arguments(coracle *engine, char **argv) {
    static const char *const none[] = {"{", "", "[1,", "{\"a\":1}x", "nul", "\"\\ud800\"", "\xff"};
    every_text(engine, NULL);
    every_text(engine, BAD);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) every_document(engine, none[i]);
    /* Deeper than any stack. */
    size_t depth = 200000;
    char *deep = calloc(2 * depth + 1, 1);
    memset(deep, '[', depth), memset(deep + depth, ']', depth);
    every_document(engine, deep);
    free(deep);

    char *s = NULL;
    int32_t number = 7;
    coracle_session *session = NULL;
    coracle_stream *stream = NULL;
    coracle_events *events = NULL;
    coracle *other = NULL;
    coracle_op *op = NULL;
    OK(coracle_op_new(0, &op, &err));

    /* No place for the answer. */
    MESSAGE(CORACLE_EINVALID, coracle_open(argv[1], NULL, NULL, &err), "out is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_engine_info(engine, NULL, NULL, &err), "out_json is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_container_create(engine, NULL, "{}", NULL, NULL, NULL, &err), "out_id is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_container_wait(engine, "x", NULL, NULL, NULL, NULL, &err), "out_code is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_container_pidfd(engine, "x", NULL, &err), "out_fd is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_events_open(engine, NULL, NULL, &err), "out is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_http_connect(engine, NULL, &err), "out_fd is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_http_serve(engine, NULL, NULL, 0, NULL, &err), "out is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_http_request(engine, "GET", "/_ping", NULL, NULL, 0, NULL, NULL, NULL, &err), "out is NULL");

    /* Nothing where something must be. */
    MESSAGE(CORACLE_EINVALID, coracle_open(NULL, NULL, &other, &err), "root is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_open("", NULL, &other, &err), "root is empty");
    MESSAGE(CORACLE_EINVALID, coracle_host_report("", NULL, &s, &err), "root is empty");
    MESSAGE(CORACLE_EINVALID, coracle_host_report("/", NULL, NULL, &err), "out_json is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_container_inspect(engine, NULL, 0, &s, &err), "id is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_container_rename(engine, "x", NULL, &err), "name is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_container_create(engine, NULL, NULL, NULL, &s, NULL, &err), "body_json is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_exec_create(engine, "x", NULL, &s, &err), "body_json is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_image_load(engine, NULL, NULL, NULL, &s, &err), "tar is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_image_import(engine, NULL, NULL, NULL, NULL, &s, &err), "tar is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_image_build(engine, NULL, NULL, NULL, NULL, &s, &err), "no context");
    MESSAGE(CORACLE_EINVALID, coracle_image_build(engine, "{\"file\":\"FROM x\\nWHAT\"}", NULL, NULL, NULL, &s, &err), "line 2: unknown instruction: WHAT");
    MESSAGE(CORACLE_EINVALID, coracle_image_build_dir(engine, NULL, -1, NULL, &s, &err), "dirfd is not an open directory");
    MESSAGE(CORACLE_EINVALID, coracle_image_build_dir(engine, NULL, 999999, NULL, &s, &err), "dirfd");
    MESSAGE(CORACLE_EINVALID, coracle_image_pull(engine, NULL, NULL, NULL, &s, &err), "ref is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_image_pull(engine, "127.0.0.1:1/x", "secret", NULL, &s, &err), "not a document of credentials");
    MESSAGE(CORACLE_EINTERNAL, coracle_image_pull(engine, "127.0.0.1:1/x", NULL, NULL, &s, &err), "onnection refused");
    MESSAGE(CORACLE_EINVALID, coracle_image_pull_platform(engine, NULL, "linux/arm64", NULL, NULL, &s, &err), "ref is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_image_pull_platform(engine, "127.0.0.1:1/x", "linux/a b", NULL, NULL, &s, &err), "platform \"linux/a b\"");
    MESSAGE(CORACLE_EINVALID, coracle_image_pull_platform(engine, "127.0.0.1:1/x", "\xff", NULL, NULL, &s, &err), "platform");
    MESSAGE(CORACLE_EINTERNAL, coracle_image_pull_platform(engine, "127.0.0.1:1/x", NULL, NULL, NULL, &s, &err), "onnection refused");
    MESSAGE(CORACLE_ENOT_FOUND, coracle_image_push(engine, "127.0.0.1:1/x", NULL, NULL, &s, &err), "does not exist locally");
    MESSAGE(CORACLE_EINVALID, coracle_registry_auth(engine, NULL, NULL, &s, &err), "auth_json is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_registry_auth(engine, "{\"serveraddress\":\"a b\"}", NULL, &s, &err), "is not a registry");
    MESSAGE(CORACLE_EINVALID, coracle_image_save(engine, "[]", NULL, &stream, &err), "names no image");
    MESSAGE(CORACLE_EINVALID, coracle_image_tag(engine, "x", NULL, &err), "new_ref is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_http_request(engine, NULL, "/", NULL, NULL, 0, NULL, NULL, &stream, &err), "method is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_http_request(engine, "GET", "x", NULL, NULL, 0, NULL, NULL, &stream, &err), "target");
    MESSAGE(CORACLE_EINVALID, coracle_http_request(engine, "POST", "/", NULL, NULL, 3, NULL, NULL, &stream, &err), "body is NULL");

    /* Bytes that are not text. */
    MESSAGE(CORACLE_EINVALID, coracle_container_inspect(engine, BAD, 0, &s, &err), "id is not UTF-8");
    MESSAGE(CORACLE_EINVALID, coracle_container_create(engine, BAD, "{}", NULL, &s, NULL, &err), "name is not UTF-8");
    MESSAGE(CORACLE_EINVALID, coracle_container_create(engine, NULL, BAD, NULL, &s, NULL, &err), "body_json is not UTF-8");
    MESSAGE(CORACLE_EINVALID, coracle_container_list(engine, BAD, &s, &err), "query_json is not UTF-8");
    MESSAGE(CORACLE_EINVALID, coracle_container_kill(engine, "x", BAD, NULL, &err), "signal is not UTF-8");
    MESSAGE(CORACLE_EINVALID, coracle_http_request(engine, BAD, "/", NULL, NULL, 0, NULL, NULL, &stream, &err), "method is not UTF-8");
    CHECK(coracle_has_feature(BAD) == 0 && coracle_has_feature(NULL) == 0 && coracle_has_feature("exec") == 1, "");

    /* Texts that are not documents. */
    static const char *const documents[] = {"", "{", "[]", "3", "null x", "{\"Image\":3}", "{\"HostConfig\":[]}", "{\"Env\":\"A=1\"}"};
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
        MESSAGE(CORACLE_EINVALID, coracle_container_create(engine, NULL, documents[i], NULL, &s, NULL, &err), "body_json: ");
    /* Members that nothing knows, and those that are known and not there. */
    MESSAGE(CORACLE_EINVALID, coracle_container_create(engine, NULL, "{\"HostConfig\":{\"ReadonlyRootfss\":true}}", NULL, &s, NULL, &err),
            "body_json: HostConfig.ReadonlyRootfss is not a known member: the nearest is ReadonlyRootfs");
    MESSAGE(CORACLE_EINVALID, coracle_container_create(engine, NULL, "{\"image\":\"x\"}", NULL, &s, NULL, &err), "the nearest is Image");
    MESSAGE(CORACLE_EUNSUPPORTED, coracle_container_create(engine, NULL, "{\"HostConfig\":{\"CpuRealtimePeriod\":1}}", NULL, &s, NULL, &err),
            "CpuRealtimePeriod is not supported");
    MESSAGE(CORACLE_EINVALID, coracle_container_update(engine, "x", "{\"Memmory\":1}", NULL, &s, &err), "the nearest is Memory");
    MESSAGE(CORACLE_EUNSUPPORTED, coracle_container_update(engine, "x", "{\"Ulimits\":[{\"Name\":\"core\"}]}", NULL, &s, &err), "Ulimits");
    MESSAGE(CORACLE_EINVALID, coracle_exec_create(engine, "x", "{\"cmd\":[]}", &s, &err), "the nearest is Cmd");
    MESSAGE(CORACLE_EINVALID, coracle_container_commit(engine, "x", NULL, "{\"Envs\":[]}", NULL, &s, &err), "the nearest is Env");
    MESSAGE(CORACLE_EINVALID, coracle_volume_create(engine, "{\"Naem\":\"x\"}", NULL, &s, NULL, &err), "the nearest is Name");
    MESSAGE(CORACLE_EINVALID, coracle_network_create(engine, "{\"Subnet\":\"x\"}", NULL, &s, NULL, &err), "Subnet is not a known member");
    MESSAGE(CORACLE_EINVALID, coracle_network_connect(engine, "x", "{\"container\":\"x\"}", NULL, &err), "the nearest is Container");
    MESSAGE(CORACLE_EINVALID, coracle_network_disconnect(engine, "x", "{\"Forced\":true}", NULL, &err), "the nearest is Force");
    MESSAGE(CORACLE_EINVALID, coracle_container_list(engine, "{\"al\":true}", &s, &err), "query_json: al is not a known member: the nearest is all");
    MESSAGE(CORACLE_EINVALID, coracle_image_build(engine, "{\"nocaches\":true}", NULL, NULL, NULL, &s, &err), "the nearest is nocache");
    MESSAGE(CORACLE_EINVALID, coracle_container_list(engine, "[1]", &s, &err), "query_json: ");
    MESSAGE(CORACLE_EINVALID, coracle_container_list(engine, "{\"limit\":\"many\"}", &s, &err), "limit must be a whole number");
    MESSAGE(CORACLE_EINVALID, coracle_container_list(engine, "{\"filters\":[]}", &s, &err), "filters");
    MESSAGE(CORACLE_EINVALID, coracle_container_logs(engine, "x", "{\"since\":\"soon\"}", NULL, &stream, &err), "since");
    MESSAGE(CORACLE_EINVALID, coracle_events_open(engine, "{\"after\":-1}", &events, &err), "after");
    MESSAGE(CORACLE_EINVALID, coracle_image_save(engine, "{}", NULL, &stream, &err), "refs_json: ");
    MESSAGE(CORACLE_EINVALID, coracle_engine_reload(engine, NULL, NULL, &err), "labels_json is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_engine_reload(engine, "{}", NULL, &err), "labels_json: ");
    MESSAGE(CORACLE_EINVALID, coracle_engine_reload(engine, "[]", "{\"a\":1}", &err), "settings_json: ");
    coracle_http_server *server = NULL;
    MESSAGE(CORACLE_EINVALID, coracle_http_serve(engine, NULL, NULL, 0, &server, &err), "needs an address");
    MESSAGE(CORACLE_EINVALID, coracle_http_serve(engine, "{\"Adresses\":[]}", NULL, 0, &server, &err), "the nearest is Addresses");
    MESSAGE(CORACLE_EINVALID, coracle_http_serve(engine, "{\"Addresses\":[\"here\"]}", NULL, 0, &server, &err), "here");
    MESSAGE(CORACLE_EINVALID, coracle_http_serve(engine, "{\"Addresses\":[\"tcp://127.0.0.1:0\"]}", NULL, 0, &server, &err), "TLS");
    MESSAGE(CORACLE_EINVALID, coracle_http_serve(engine, NULL, NULL, 1, &server, &err), "fds is NULL");
    MESSAGE(CORACLE_EINVALID, coracle_http_serve(engine, NULL, (int32_t[]){-1}, 1, &server, &err), "fds: a descriptor below 0");
    MESSAGE(CORACLE_EINVALID, coracle_http_serve(engine, NULL, (int32_t[]){999999}, 1, &server, &err), "fds: descriptor 999999");
    MESSAGE(CORACLE_EINVALID, coracle_http_serve(engine, NULL, (int32_t[]){1}, 1, &server, &err), "");
    CHECK(server == NULL, "");
    MESSAGE(CORACLE_EINVALID, coracle_http_request(engine, "GET", "/", "{\"a\":1}", NULL, 0, NULL, NULL, &stream, &err), "headers_json: ");

    /* Flags and sized structs. */
    MESSAGE(CORACLE_EINVALID, coracle_container_remove(engine, "x", 1u << 20, NULL, &err), "flags");
    MESSAGE(CORACLE_EINVALID, coracle_image_remove(engine, "x", 4, NULL, &s, &err), "flags");
    coracle_io io = CORACLE_IO_INIT;
    io.size = 0;
    MESSAGE(CORACLE_EINVALID, coracle_container_start(engine, "x", &io, NULL, &session, &err), "io.size");
    io.size = sizeof io, io.flags = 2;
    MESSAGE(CORACLE_EINVALID, coracle_container_start(engine, "x", &io, NULL, &session, &err), "io.flags");
    io.flags = 0, io.fd_out = 9999;
    MESSAGE(CORACLE_EINVALID, coracle_container_start(engine, "x", &io, NULL, &session, &err), "io.fd_out");
    io.fd_out = -1;
    MESSAGE(CORACLE_EINVALID, coracle_container_start(engine, "x", &io, NULL, NULL, &err), "out is NULL");
    struct { coracle_io io; uint64_t later; } longer = {CORACLE_IO_INIT, 0};
    longer.io.size = sizeof longer;
    STATUS(CORACLE_ENOT_FOUND, coracle_container_start(engine, "none", &longer.io, NULL, &session, &err));
    longer.later = 1;
    MESSAGE(CORACLE_EUNSUPPORTED, coracle_container_start(engine, "none", &longer.io, NULL, &session, &err), "does not know");
    coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
    options.run_dir = argv[2];
    options.config_json = "{\"durability\":\"maybe\"}";
    MESSAGE(CORACLE_EINVALID, coracle_open(argv[1], &options, &other, &err), "durability");
    options.config_json = "{\"data-root\":\"/\"}";
    MESSAGE(CORACLE_EINVALID, coracle_open(argv[1], &options, &other, &err), "data-root");
    options.config_json = NULL, options.flags = 1 << 20;
    MESSAGE(CORACLE_EINVALID, coracle_open(argv[1], &options, &other, &err), "opt.flags");
    CHECK(coracle_set_log(99, NULL, NULL, NULL, &err) == CORACLE_EINVALID, "");
    CHECK(!strcmp(coracle_status_name(-7004), "NOT_FOUND") && !strcmp(coracle_status_name(12345), "UNKNOWN"), "");

    /* Calls that failed wrote their outs all the same. */
    s = (char *)1, number = 7;
    STATUS(CORACLE_ENOT_FOUND, coracle_container_inspect(engine, "none", 0, &s, &err));
    STATUS(CORACLE_ENOT_FOUND, coracle_container_pidfd(engine, "none", &number, &err));
    CHECK(s == NULL && number == -1, "");
    coracle_op_free(op);
}

/* Errors name the part that failed, the argument and its field, and speak of JSON. */
static void details(coracle *engine) {
    char *s = NULL;
    coracle_stream *stream = NULL;
    coracle_op *op = NULL;
    coracle_result result = CORACLE_RESULT_INIT;
    static const struct {
        const char *body, *message, *field;
    } kinds[] = {
        {"{\"HostConfig\":{\"Memory\":\"lots\"}}", "body_json: HostConfig.Memory must be a whole number, not the string \"lots\"", "\"HostConfig.Memory\""},
        {"{\"HostConfig\":{\"Binds\":[\"a:b\",7]}}", "body_json: HostConfig.Binds[1] must be a string, not the number 7", "\"HostConfig.Binds[1]\""},
        {"{\"Tty\":\"yes\"}", "body_json: Tty must be true or false, not the string \"yes\"", "\"Tty\""},
        {"{\"Labels\":[\"a\"]}", "body_json: Labels must be an object, not a list", "\"Labels\""},
        {"{\"HostConfig\":{\"Memoryy\":7}}", "HostConfig.Memoryy is", "\"HostConfig.Memoryy\""},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        MESSAGE(CORACLE_EINVALID, coracle_container_create(engine, NULL, kinds[i].body, NULL, &s, NULL, &err), kinds[i].message);
        DETAIL(CORACLE_EINVALID, coracle_container_create(engine, NULL, kinds[i].body, NULL, &s, NULL, &err), "container", kinds[i].field);
    }
    DETAIL(CORACLE_EINVALID, coracle_container_list(engine, "{\"limit\":[]}", &s, &err), "container", "{\"argument\":\"query_json\",\"field\":\"limit\"}");
    DETAIL(CORACLE_EINVALID, coracle_volume_inspect(engine, NULL, &s, &err), "volume", "{\"argument\":\"name\"}");
    DETAIL(CORACLE_ENOT_FOUND, coracle_volume_inspect(engine, "none", &s, &err), "volume", "{}");
    DETAIL(CORACLE_ENOT_FOUND, coracle_exec_inspect(engine, "none", &s, &err), "exec", "{}");
    DETAIL(CORACLE_ENOT_FOUND, coracle_image_inspect(engine, "none", &s, &err), "image", "{}");
    DETAIL(CORACLE_EINVALID, coracle_http_request(engine, "GET", "x", NULL, NULL, 0, NULL, NULL, &stream, &err), "http", "target");
    DETAIL(CORACLE_EINVALID, coracle_engine_reload(engine, "{}", NULL, &err), "engine", "labels_json");
    /* An answer that comes later has the area of its call. */
    OK(coracle_op_new(CORACLE_OP_NONBLOCK, &op, &err));
    STATUS(CORACLE_AGAIN, coracle_image_remove(engine, "none", 0, op, NULL, &err));
    DETAIL(CORACLE_ENOT_FOUND, finish(op, &result), "image", "{}");
    coracle_op_free(op);
}

/* Callbacks. */
static int64_t refuse(void *user, void *buffer, size_t length) {
    (void)user, (void)buffer, (void)length;
    return -5;
}
static int64_t lie(void *user, void *buffer, size_t length) {
    (void)user, (void)buffer;
    return (int64_t)length + 1;
}
static int64_t garbage(void *user, void *buffer, size_t length) {
    int *left = user;
    if (!*left) return 0;
    --*left;
    memset(buffer, 'x', length);
    return (int64_t)length;
}
/* An archive with one entry of a gigabyte, in small pieces. */
static int64_t trickle(void *user, void *buffer, size_t length) {
    static const char sum[] = "00000000000";
    int *begun = user;
    unsigned total = 0;
    unsigned char *block = buffer;
    if (length < 512) return 0;
    memset(block, 0, 512);
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    if ((*begun)++) return 512;
    memcpy(block, "layer.tar", 9);
    memcpy(block + 100, "0000644\0000000000\0000000000\00010000000000\0", 36);
    memcpy(block + 136, sum, sizeof sum);
    memcpy(block + 148, "        0", 9);
    memcpy(block + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++) total += block[i];
    snprintf((char *)block + 148, 8, "%06o", total);
    return 512;
}
static int beats, drops;
static pthread_t beat_thread;
static int32_t on_beat(void *user, const char *record) {
    if (record) return 0;
    beat_thread = pthread_self();
    return ++beats == 4 ? *(int32_t *)user : 0;
}
static void on_drop(void *user) {
    (void)user;
    drops++;
}
static coracle_op *alarm_op;
static void on_alarm(int signal) {
    (void)signal;
    coracle_op_cancel(alarm_op);
}
static void *cancel_later(void *op) {
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    coracle_op_cancel(op);
    return NULL;
}

static void callbacks(coracle *engine) {
    char *json = NULL;
    int blocks = 3;
    CHECK(coracle_image_load(engine, refuse, NULL, NULL, &json, &err) == CORACLE_ECALLBACK, coracle_error_message(err));
    CHECK(has(coracle_error_detail(err), "{\"callback\":-5}"), coracle_error_detail(err));
    coracle_error_free(err);
    STATUS(CORACLE_ECALLBACK, coracle_image_load(engine, lie, NULL, NULL, &json, &err));
    STATUS(CORACLE_EINVALID, coracle_image_load(engine, garbage, &blocks, NULL, &json, &err));
    blocks = 1;
    STATUS(CORACLE_EINVALID, coracle_image_import(engine, "{\"repo\":\"x\"}", garbage, &blocks, NULL, &json, &err));
    STATUS(CORACLE_ENOT_FOUND, coracle_image_inspect(engine, "x", &json, &err));
    blocks = 1000000;
    coracle_op *op = within(0);
    STATUS(CORACLE_ETIMEOUT, coracle_image_load(engine, garbage, &blocks, op, &json, &err));
    coracle_op_free(op);

    /* A slow source does not delay the deadline. */
    int begun = 0;
    /* The source would take hours. On a busy machine it is asked a few times only within a longer bound. */
    for (int64_t ms = 1000; begun <= 3 && ms < LONG; ms *= 4) {
        begun = 0;
        op = within(ms);
        STATUS(CORACLE_ETIMEOUT, coracle_image_load(engine, trickle, &begun, op, &json, &err));
        coracle_op_free(op);
    }
    CHECK(begun > 3, "the source was asked");
}

static void waiting(coracle *engine, const char *image) {
    char id[65];
    int32_t code = 7, answer = 42;
    coracle_session *session = NULL;
    coracle_io io = CORACLE_IO_INIT;
    create(engine, NULL, body(image, "exec 0<&-; echo closed; sleep 1000", "\"OpenStdin\":true,"), id);
    OK(coracle_container_start(engine, id, &io, NULL, &session, &err));

    coracle_op *op = within(50);
    STATUS(CORACLE_ETIMEOUT, coracle_container_wait(engine, id, NULL, op, &code, NULL, &err));
    CHECK(code == -1, "");
    coracle_op_set_timeout(op, -1);

    coracle_op_set_progress(op, on_beat, &answer, on_drop, 10);
    CHECK(coracle_container_wait(engine, id, NULL, op, &code, NULL, &err) == CORACLE_ECALLBACK, coracle_error_message(err));
    CHECK(beats == 4 && pthread_equal(beat_thread, pthread_self()), "heartbeats come on the calling thread");
    CHECK(has(coracle_error_detail(err), "{\"callback\":42}"), coracle_error_detail(err));
    coracle_error_free(err);
    coracle_op *begun = NULL;
    OK(coracle_op_new(CORACLE_OP_NONBLOCK, &begun, &err));
    coracle_op_set_progress(begun, on_beat, &answer, NULL, 10);
    STATUS(CORACLE_EMISUSE, coracle_container_wait(engine, id, NULL, begun, NULL, NULL, &err));
    coracle_op_free(begun);
    CHECK(drops == 0, "");
    coracle_op_set_progress(op, NULL, NULL, NULL, 0);
    CHECK(drops == 1, "the drop function came once");

    pthread_t thread;
    pthread_create(&thread, NULL, cancel_later, op);
    STATUS(CORACLE_ECANCELLED, coracle_container_wait(engine, id, NULL, op, &code, NULL, &err));
    pthread_join(thread, NULL);
    STATUS(CORACLE_ECANCELLED, coracle_container_wait(engine, id, NULL, op, &code, NULL, &err));
    coracle_op_free(op);

    /* From a signal handler. */
    struct sigaction action = {.sa_handler = on_alarm}, old;
    struct itimerval soon = {{0, 0}, {0, 50000}};
    coracle_op_new(0, &alarm_op, &err);
    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &soon, NULL);
    STATUS(CORACLE_ECANCELLED, coracle_session_wait(session, alarm_op, &code, &err));
    sigaction(SIGALRM, &old, NULL);
    coracle_op_free(alarm_op);

    /* Nobody reads its stdin: no SIGPIPE; an error once the process has ended. */
    char text[64] = "";
    op = within(LONG);
    CHECK(coracle_session_read(session, text, sizeof text, op, NULL, &err) == 7, text);
    char big[65536];
    memset(big, 'x', sizeof big);
    int64_t count = 1;
    for (int i = 0; i < 100 && count > 0; i++) count = coracle_session_write(session, big, sizeof big, op, &err);
    CHECK(count > 0, coracle_error_message(err));
    OK(coracle_container_kill(engine, id, NULL, NULL, &err));
    /* The container's monitor takes input until it learns of the end. */
    while (count > 0) count = coracle_session_write(session, big, sizeof big, op, &err);
    CHECK(count == CORACLE_EIO && coracle_error_errno(err) == EPIPE, coracle_error_message(err));
    coracle_error_free(err);
    coracle_op_free(op);

    /* Sessions: lengths, channels, streams that were taken. */
    STATUS(CORACLE_EINVALID, coracle_session_read(session, text, 0, NULL, NULL, &err));
    STATUS(CORACLE_EINVALID, coracle_session_read(session, NULL, 4, NULL, NULL, &err));
    CHECK(coracle_session_fd(session, 3) == CORACLE_EINVALID, "");
    int fd = coracle_session_take_fd(session, CORACLE_STDOUT);
    CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC), "");
    close(fd);
    CHECK(coracle_session_take_fd(session, CORACLE_STDOUT) == CORACLE_ENOT_FOUND, "");
    CHECK(coracle_session_resize(session, 10, 10, &err) < 0, "it has ended");
    coracle_error_free(err);
    err = NULL;
    coracle_session_free(session);
    coracle_session_free(session);
    STATUS(CORACLE_EMISUSE, coracle_session_close_stdin(session, &err));
    OK(coracle_container_remove(engine, id, CORACLE_REMOVE_FORCE, NULL, &err));
}

/* Freed by one thread while another waits in it. */
static void *wait_for_event(void *events) {
    const char *json = NULL;
    coracle_status status;
    /* The other thread's looks may be in the way of the first attempts. */
    int tries = LONG;
    while ((status = coracle_events_next(events, -1, &json, NULL)) == CORACLE_EMISUSE && tries--)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return (void *)(intptr_t)status;
}

static void freed_meanwhile(coracle *engine) {
    coracle_events *events = NULL;
    const char *json = NULL;
    pthread_t thread;
    void *status = NULL;
    OK(coracle_events_open(engine, NULL, &events, &err));
    pthread_create(&thread, NULL, wait_for_event, events);
    /* Until the thread waits there. */
    int tries = LONG / 10;
    while (tries-- && coracle_events_next(events, 0, &json, NULL) == CORACLE_AGAIN)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    STATUS(CORACLE_EMISUSE, coracle_events_next(events, 0, &json, &err));
    coracle_events_free(events);
    pthread_join(thread, &status);
    CHECK((intptr_t)status == CORACLE_ECANCELLED, "");
    STATUS(CORACLE_EMISUSE, coracle_events_next(events, 0, &json, &err));
}

static void forked(coracle *engine, char **argv) {
    coracle_op *op = NULL;
    coracle_events *events = NULL;
    OK(coracle_op_new(0, &op, &err));
    OK(coracle_events_open(engine, NULL, &events, &err));
    CHECK(coracle_container_pause(engine, "none", NULL, &err) == CORACLE_ENOT_FOUND, "");
    coracle_error *from_parent = err;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        passed = failed = 0;
        const char *text = NULL;
        char *json = NULL;
        alarm(LONG / 1000);
        every_function(engine, CORACLE_EFORKED);
        STATUS(CORACLE_EFORKED, coracle_events_next(events, -1, &text, &err));
        CHECK(coracle_op_fd(op) == CORACLE_EFORKED, "");
        CHECK(coracle_error_http_status(from_parent) == 404, "errors are plain memory");
        coracle_op_cancel(op);
        coracle_op_free(op);
        coracle_events_free(events);
        coracle_close(engine);
        /* SQLite's locks stayed with the parent: not the same root, but another. */
        coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
        coracle *own = NULL;
        options.run_dir = argv[2];
        STATUS(CORACLE_EFORKED, coracle_open(argv[1], &options, &own, &err));
        char other[4096], run[4096];
        snprintf(other, sizeof other, "%s-child", argv[1]);
        snprintf(run, sizeof run, "%s-child", argv[2]);
        options.run_dir = run;
        OK(coracle_open(other, &options, &own, &err));
        OK(coracle_image_list(own, NULL, &json, &err));
        coracle_free(json);
        coracle_close(own);
        _exit(failed != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the forked child");
    coracle_error_free(from_parent);
    err = NULL;
    const char *text = NULL;
    char *json = NULL;
    STATUS(CORACLE_AGAIN, coracle_events_next(events, 0, &text, &err));
    int32_t code = 0;
    STATUS(CORACLE_ENOT_FOUND, coracle_container_wait(engine, "none", NULL, op, &code, NULL, &err));
    OK(coracle_container_list(engine, NULL, &json, &err));
    coracle_free(json);
    coracle_events_free(events);
    coracle_op_free(op);
}

/* Handles outlive their engine's. */
static void orders(coracle *unused, char **argv, const char *image) {
    (void)unused;
    coracle *engine = open_root(argv);
    coracle_stream *stream = NULL;
    char buffer[65536];
    OK(coracle_image_save(engine, "[\"busybox\"]", NULL, &stream, &err) || image == NULL);
    coracle_close(engine);
    CHECK(coracle_stream_read(stream, buffer, sizeof buffer, NULL, &err) > 0, coracle_error_message(err));
    coracle_error_free(err);
    err = NULL;
    STATUS(CORACLE_EINVALID, coracle_stream_read(stream, NULL, 10, NULL, &err));
    coracle_frame frame = CORACLE_FRAME_INIT;
    frame.size = 3;
    STATUS(CORACLE_EINVALID, coracle_stream_next(stream, NULL, &frame, &err));
    STATUS(CORACLE_EINVALID, coracle_stream_next(stream, NULL, NULL, &err));
    coracle_stream_free(stream);
    coracle_stream_free(stream);
    STATUS(CORACLE_EMISUSE, coracle_stream_read(stream, buffer, sizeof buffer, NULL, &err));
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    coracle *engine = open_root(argv);
    char *image = load_image(engine, argv[3]);
    handles(engine, argv);
    arguments(engine, argv);
    details(engine);
    callbacks(engine);
    waiting(engine, image);
    freed_meanwhile(engine);
    forked(engine, argv);
    orders(engine, argv, image);
    free(image);
    coracle_close(engine);
    return summary();
}
