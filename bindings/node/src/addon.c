/*
 * The addon of the Node binding: loads the library, and gives JavaScript its functions (lib/native.js).
 *
 * load(path) -> {functions, numbers}
 * sync(function, arguments) -> {failure} or {answers}: on JavaScript's thread
 * run(function, arguments, timeout, asks, done) -> the call: on a thread; asks(record or number) puts questions
 * wait(function, arguments, timeout, done) -> the call: on no thread
 * readable(descriptor, done) -> the call
 * cancel(call), answer(call, number or bytes), release(handle), setLog(level, function), closeFd(descriptor)
 */

#include "calls.h"
#include <dlfcn.h>
#include <stdio.h>

/* The library's functions are the same for all environments. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

#define COUNT(list) (sizeof(list) / sizeof *(list))

static napi_value thrown(napi_env env, const char *message) {
  napi_throw_error(env, "ERR_CORACLE", message);
  return NULL;
}

/* The arguments of a function of JavaScript; the addon of its environment. */
static struct addon *given(napi_env env, napi_callback_info info, size_t count, napi_value *arguments) {
  void *addon = NULL;
  size_t room = count;
  for (size_t i = 0; i < count; i++) napi_get_undefined(env, &arguments[i]);
  napi_get_cb_info(env, info, &room, arguments, NULL, &addon);
  return addon;
}

/* -- The library --------------------------------------------------------------------------------------------- */

/* Fills the table; the name of a function that is not there, or NULL. */
static const char *fill(void *library) {
  void **place = (void **)&api;
  for (size_t i = 0; i < COUNT(raw_symbols); i++) {
    place[i] = dlsym(library, raw_symbols[i]);
    if (!place[i]) return raw_symbols[i];
  }
  return NULL;
}

static bool load_library(const char *path, char *problem, size_t room) {
  bool good = true;
  pthread_mutex_lock(&loading);
  if (!loaded) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *missing = library ? fill(library) : NULL;
    good = library && !missing;
    if (!library) snprintf(problem, room, "%s", dlerror());
    else if (missing) snprintf(problem, room, "%s: it has no %s, so it is older than this package", path, missing);
    loaded = good;
  }
  pthread_mutex_unlock(&loading);
  return good;
}

static napi_value load(napi_env env, napi_callback_info info) {
  napi_value arguments[1], made = NULL, functions = NULL, numbers = NULL;
  char *path = NULL, problem[1024] = "";
  given(env, info, 1, arguments);
  if (!take_text(env, arguments[0], &path) || !path) return thrown(env, "load: no path");
  bool good = load_library(path, problem, sizeof problem);
  free(path);
  if (!good) return thrown(env, problem);
  napi_create_object(env, &made);
  napi_create_object(env, &functions);
  napi_create_object(env, &numbers);
  for (size_t i = 0; i < COUNT(raws); i++) property(env, functions, raws[i].name, number(env, (int64_t)i));
  for (size_t i = 0; i < COUNT(raw_numbers); i++) property(env, numbers, raw_numbers[i].name, number(env, raw_numbers[i].value));
  property(env, made, "functions", functions);
  property(env, made, "numbers", numbers);
  return made;
}

/* -- Handles --------------------------------------------------------------------------------------------------- */

static void release_on_thread(struct call *c) { release_value((char)c->in[0].number, c->in[0].handle); }
static const struct raw release_raw = {"release", "", "", false, release_on_thread};

static struct call *new_call(struct addon *addon, const struct raw *raw) {
  struct call *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->addon = addon;
  c->raw = raw;
  c->fd = -1;
  pthread_cond_init(&c->told, NULL);
  return c;
}

static void drop_new(struct call *c) {
  drop_call(c);
  free(c);
}

/* Ends a handle: a server, which may wait for its connections, on a thread; others at once. */
static void release_held(struct held *held) {
  void *value = held->value;
  struct addon *addon = held->addon;
  held->value = NULL;
  if (!value) return;
  struct call *c = held->kind == 'H' && !addon->ending ? new_call(addon, &release_raw) : NULL;
  if (!c) {
    release_value(held->kind, value);
    return;
  }
  c->in[0].handle = value;
  c->in[0].number = held->kind;
  list_call(c);
  if (!enqueue(c)) {
    unlist_call(c);
    drop_new(c);
    release_value(held->kind, value);
  }
}

static void forgotten(napi_env env, void *data, void *hint) {
  struct held *held = data;
  (void)env;
  (void)hint;
  release_held(held);
  leave(held->addon);
  free(held);
}

static napi_value hold(struct addon *addon, napi_env env, char kind, void *value) {
  napi_value made = NULL;
  struct held *held = malloc(sizeof *held);
  if (held) *held = (struct held){addon, kind, value};
  if (held && napi_create_external(env, held, forgotten, NULL, &made) == napi_ok) {
    addon->users++;
    return made;
  }
  release_value(kind, value);
  free(held);
  return nothing(env);
}

static napi_value release(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  struct held *held = NULL;
  given(env, info, 1, arguments);
  if (napi_get_value_external(env, arguments[0], (void **)&held) == napi_ok) release_held(held);
  return NULL;
}

/* -- Calls ------------------------------------------------------------------------------------------------------ */

/* The call of a function with its arguments; NULL: an error was thrown. */
static struct call *prepared(struct addon *addon, napi_env env, napi_value which, napi_value list) {
  int64_t index;
  char problem[128];
  if (!take_number(env, which, &index) || index < 0 || (size_t)index >= COUNT(raws)) {
    thrown(env, "no such function");
    return NULL;
  }
  struct call *c = new_call(addon, &raws[index]);
  if (!c) {
    thrown(env, "memory ran out");
    return NULL;
  }
  for (uint32_t i = 0; c->raw->takes[i]; i++) {
    napi_value one = NULL;
    if (napi_get_element(env, list, i, &one) == napi_ok && take(env, one, c->raw->takes[i], c, &c->in[i])) continue;
    snprintf(problem, sizeof problem, "%s: argument %u is of a wrong type", c->raw->name, i);
    drop_new(c);
    napi_throw_type_error(env, "ERR_INVALID_ARG_TYPE", problem);
    return NULL;
  }
  napi_create_reference(env, list, 1, &c->kept);
  return c;
}

static napi_value sync_call(napi_env env, napi_callback_info info) {
  napi_value arguments[2], made = NULL;
  struct addon *addon = given(env, info, 2, arguments);
  struct call *c = prepared(addon, env, arguments[0], arguments[1]);
  if (!c) return NULL;
  c->raw->run(c);
  /* A number of its own is a failure only with an error's code. */
  napi_create_object(env, &made);
  if (c->error) property(env, made, "failure", failure(env, c));
  else property(env, made, "answers", answers(env, c));
  drop_new(c);
  return made;
}

static void forget_name(napi_env env, void *data, void *hint) {
  struct call_name *name = data;
  (void)env;
  (void)hint;
  if (name->call) name->call->name = NULL;
  free(name);
}

static napi_value named(napi_env env, struct call *c) {
  napi_value made = NULL;
  c->name = malloc(sizeof *c->name);
  if (!c->name) return nothing(env);
  c->name->call = c;
  if (napi_create_external(env, c->name, forget_name, NULL, &made) == napi_ok) return made;
  free(c->name);
  c->name = NULL;
  return nothing(env);
}

/* Makes the operation of a call, with its deadline, in milliseconds; below 0: none. */
static void give_op(struct call *c, uint64_t flags, int64_t timeout) {
  if (!c->raw->lasts) return;
  c->status = api.op_new(flags, &c->op, &c->error);
  if (c->status < 0) return;
  if (timeout >= 0) api.op_set_timeout(c->op, timeout);
  if (c->ask && flags == 0) api.op_set_progress(c->op, ask_record, c, NULL, 0);
}

/* Ends a call that did not begin, or that is over already: JavaScript is told by the loop. */
static void fail_later(struct call *c, int64_t status) {
  struct addon *addon = c->addon;
  if (c->status >= 0) c->status = status;
  pthread_mutex_lock(&addon->lock);
  c->next = addon->over;
  addon->over = c;
  pthread_mutex_unlock(&addon->lock);
  uv_async_send(&addon->wake);
}

static napi_value run_call(napi_env env, napi_callback_info info) {
  napi_value arguments[5];
  int64_t timeout = -1;
  struct addon *addon = given(env, info, 5, arguments);
  struct call *c = prepared(addon, env, arguments[0], arguments[1]);
  if (!c) return NULL;
  take_number(env, arguments[2], &timeout);
  if (!is_nothing(env, arguments[3])) napi_create_reference(env, arguments[3], 1, &c->ask);
  napi_create_reference(env, arguments[4], 1, &c->done);
  napi_value name = named(env, c);
  list_call(c);
  give_op(c, 0, timeout);
  if (c->status < 0 || !enqueue(c)) fail_later(c, CORACLE_EIO);
  return name;
}

static napi_value wait_call(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  int64_t timeout = -1;
  struct addon *addon = given(env, info, 4, arguments);
  struct call *c = prepared(addon, env, arguments[0], arguments[1]);
  if (!c) return NULL;
  take_number(env, arguments[2], &timeout);
  napi_create_reference(env, arguments[3], 1, &c->done);
  napi_value name = named(env, c);
  list_call(c);
  give_op(c, CORACLE_OP_NONBLOCK, timeout);
  if (c->status >= 0) c->raw->run(c);
  /* The call may be over already. */
  if (c->status != CORACLE_AGAIN || take_result(c)) {
    fail_later(c, c->status);
  } else if (!poll_for(c, api.op_fd(c->op))) {
    uv_poll_stop(&c->poll);
    c->status = 0;
    fail_later(c, CORACLE_EIO);
  }
  return name;
}

static napi_value readable(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  int64_t fd = -1;
  struct addon *addon = given(env, info, 2, arguments);
  struct call *c = new_call(addon, NULL);
  if (!c || !take_number(env, arguments[0], &fd)) return thrown(env, "readable: no descriptor");
  napi_create_reference(env, arguments[1], 1, &c->done);
  napi_value name = named(env, c);
  list_call(c);
  /* A duplicate: the handle may be closed meanwhile, and two may wait for one. */
  c->fd = fcntl((int)fd, F_DUPFD_CLOEXEC, 0);
  if (c->fd < 0 || !poll_for(c, c->fd)) {
    if (c->polls) uv_poll_stop(&c->poll);
    fail_later(c, CORACLE_EIO);
  }
  return name;
}

static struct call *call_of(napi_env env, napi_value value) {
  struct call_name *name = NULL;
  if (!is_a(env, value, napi_external) || napi_get_value_external(env, value, (void **)&name) != napi_ok) return NULL;
  return name->call;
}

static napi_value cancel_call(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  given(env, info, 1, arguments);
  struct call *c = call_of(env, arguments[0]);
  if (c) cancel(c);
  return NULL;
}

static napi_value answer(napi_env env, napi_callback_info info) {
  napi_value arguments[2];
  int64_t value = -1;
  void *data = NULL;
  size_t count = 0;
  struct addon *addon = given(env, info, 2, arguments);
  struct call *c = call_of(env, arguments[0]);
  if (!c) return NULL;
  bool bytes_given = napi_get_value_int64(env, arguments[1], &value) != napi_ok;
  if (bytes_given) napi_get_buffer_info(env, arguments[1], &data, &count);
  pthread_mutex_lock(&addon->lock);
  if (bytes_given && c->question == ASK_BYTES && !c->answered) {
    value = data && count <= c->room ? (int64_t)count : -1;
    if (value > 0) memcpy(c->buffer, data, count);
  }
  answer_locked(c, value);
  pthread_mutex_unlock(&addon->lock);
  return NULL;
}

static napi_value close_fd(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  int64_t fd = -1;
  given(env, info, 1, arguments);
  if (take_number(env, arguments[0], &fd) && fd >= 0) close((int)fd);
  return NULL;
}

/* -- The library's log --------------------------------------------------------------------------------------------- */

/* A sink of an environment, which may end before the library lets go of it. */
struct sink {
  struct addon *addon;
  struct sink *before, *after;
};

/* Held while the library's sink is changed: the sink of `owner`, which is only compared. `logging` is taken inside. */
static pthread_mutex_t setting = PTHREAD_MUTEX_INITIALIZER;
static struct addon *owner;

/* The sinks that the library has not let go of. */
static pthread_mutex_t logging = PTHREAD_MUTEX_INITIALIZER;
static struct sink *sinks;

static struct sink *new_sink(struct addon *addon) {
  struct sink *sink = malloc(sizeof *sink);
  if (!sink) return NULL;
  pthread_mutex_lock(&logging);
  *sink = (struct sink){addon, NULL, sinks};
  if (sinks) sinks->before = sink;
  sinks = sink;
  pthread_mutex_unlock(&logging);
  return sink;
}

static void add_message(struct addon *addon, int32_t level, const char *target, const char *said) {
  struct message *message = malloc(sizeof *message);
  if (!message) return;
  *message = (struct message){level, copied(target), copied(said), NULL};
  pthread_mutex_lock(&addon->lock);
  *addon->message_end = message;
  addon->message_end = &message->next;
  uv_async_send(&addon->wake);
  pthread_mutex_unlock(&addon->lock);
}

static void logged(void *user, int32_t level, const char *target, const char *said) {
  struct sink *sink = user;
  pthread_mutex_lock(&logging);
  if (sink->addon) add_message(sink->addon, level, target, said);
  pthread_mutex_unlock(&logging);
}

static void let_go(void *user) {
  struct sink *sink = user;
  pthread_mutex_lock(&logging);
  if (sink->after) sink->after->before = sink->before;
  if (sink->before) sink->before->after = sink->after;
  else sinks = sink->after;
  pthread_mutex_unlock(&logging);
  free(sink);
}

/* Takes the environment out of its sinks: no message comes any more. The library's sink is removed if it is one of them. */
static void leave_sinks(struct addon *addon) {
  pthread_mutex_lock(&logging);
  for (struct sink *sink = sinks; sink; sink = sink->after) {
    if (sink->addon == addon) sink->addon = NULL;
  }
  pthread_mutex_unlock(&logging);
  pthread_mutex_lock(&setting);
  if (owner == addon) {
    api.set_log(CORACLE_LOG_ERROR, NULL, NULL, NULL, NULL);
    owner = NULL;
  }
  pthread_mutex_unlock(&setting);
}

static napi_value set_log(napi_env env, napi_callback_info info) {
  napi_value arguments[2], made = NULL;
  int64_t level = CORACLE_LOG_INFO;
  struct addon *addon = given(env, info, 2, arguments);
  take_number(env, arguments[0], &level);
  struct call *c = new_call(addon, NULL);
  bool takes = !is_nothing(env, arguments[1]);
  struct sink *sink = c && takes ? new_sink(addon) : NULL;
  if (!c || (takes && !sink)) {
    if (c) drop_new(c);
    return thrown(env, "memory ran out");
  }
  pthread_mutex_lock(&setting);
  c->status = api.set_log((int32_t)level, takes ? logged : NULL, sink, takes ? let_go : NULL, &c->error);
  if (c->status >= 0) owner = takes ? addon : NULL;
  pthread_mutex_unlock(&setting);
  napi_create_object(env, &made);
  if (c->status < 0) {
    property(env, made, "failure", failure(env, c));
    if (sink) let_go(sink);
  } else {
    if (addon->log) napi_delete_reference(env, addon->log);
    addon->log = NULL;
    if (takes) napi_create_reference(env, arguments[1], 1, &addon->log);
  }
  drop_new(c);
  return made;
}

/* -- The environment ------------------------------------------------------------------------------------------------- */

/* The environment ends: calls are cancelled, and the loop sees their ends and those of the threads. */
static void end(napi_async_cleanup_hook_handle hook, void *data) {
  struct addon *addon = data;
  (void)hook;
  addon->ending = true;
  /* The loop turns only as long as a handle needs it. */
  addon->lasting++;
  uv_ref((uv_handle_t *)&addon->wake);
  leave_sinks(addon);
  if (addon->log) napi_delete_reference(addon->env, addon->log);
  addon->log = NULL;
  for (struct call *c = addon->calls, *after; c; c = after) {
    after = c->after;
    bool over = c->polls && !c->raw && c->cancelled;
    if (c->polls && !over) finish(c);
    else cancel(c);
  }
  pthread_mutex_lock(&addon->lock);
  addon->stopping = true;
  pthread_cond_broadcast(&addon->work);
  pthread_mutex_unlock(&addon->lock);
  uv_async_send(&addon->wake);
}

static struct addon *new_addon(napi_env env) {
  struct addon *addon = calloc(1, sizeof *addon);
  if (!addon) return NULL;
  addon->env = env;
  addon->users = 1;
  addon->message_end = &addon->messages;
  addon->wake.data = addon;
  pthread_mutex_init(&addon->lock, NULL);
  pthread_cond_init(&addon->work, NULL);
  if (napi_get_uv_event_loop(env, &addon->loop) != napi_ok || uv_async_init(addon->loop, &addon->wake, woken) != 0) {
    free(addon);
    return NULL;
  }
  addon->wake.data = addon;
  uv_unref((uv_handle_t *)&addon->wake);
  napi_add_async_cleanup_hook(env, end, addon, &addon->hook);
  return addon;
}

NAPI_MODULE_INIT() {
  static const struct {
    const char *name;
    napi_callback function;
  } functions[] = {
    {"load", load}, {"sync", sync_call}, {"run", run_call}, {"wait", wait_call}, {"readable", readable}, {"cancel", cancel_call},
    {"answer", answer}, {"release", release}, {"setLog", set_log}, {"closeFd", close_fd},
  };
  struct addon *addon = new_addon(env);
  if (!addon) return thrown(env, "the event loop cannot be used");
  for (size_t i = 0; i < COUNT(functions); i++) {
    napi_value made = NULL;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].function, addon, &made);
    property(env, exports, functions[i].name, made);
  }
  return exports;
}
