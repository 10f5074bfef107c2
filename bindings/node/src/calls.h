/* The calls of an environment of JavaScript: their threads, their questions, and their ends on JavaScript's own thread. */

#ifndef CORACLE_NODE_CALLS_H
#define CORACLE_NODE_CALLS_H

#include "values.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* How long a thread without work stays, in seconds. */
#define STAYS 5

/* A thread that ended, and is to be joined. */
struct ended {
  pthread_t thread;
  struct ended *next;
};

/* A message of the library's log. */
struct message {
  int32_t level;
  char *target, *text;
  struct message *next;
};

struct call_name {
  struct call *call;
};

/* An environment of JavaScript: the main thread's, or a worker's. */
struct addon {
  napi_env env;
  uv_loop_t *loop;
  uv_async_t wake;
  napi_async_cleanup_hook_handle hook;
  /* Handles that exist, and the environment itself. */
  size_t users;
  /* Calls that are not over, of any kind. Only JavaScript's thread uses the list. */
  struct call *calls;
  /* Calls whose end the loop sees, so that the program goes on. */
  size_t lasting;
  bool ending;
  napi_ref log;
  pthread_mutex_t lock;
  /* Under the lock: */
  pthread_cond_t work;
  struct call *first, *last, *over, *asking;
  struct message *messages, **message_end;
  struct ended *ended;
  size_t threads, idle;
  bool stopping;
};

static void release_value(char kind, void *value) {
  switch (kind) {
    case 'E': api.close(value); break;
    case 'S': api.session_free(value); break;
    case 'R': api.stream_free(value); break;
    case 'V': api.events_free(value); break;
    case 'H': api.http_server_free(value); break;
  }
}

static void leave(struct addon *addon) {
  if (--addon->users == 0) {
    pthread_mutex_destroy(&addon->lock);
    pthread_cond_destroy(&addon->work);
    free(addon);
  }
}

/* -- The threads of calls -------------------------------------------------------------------------------- */

static struct call *next_call(struct addon *addon) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += STAYS;
  int waited = 0;
  addon->idle++;
  while (!addon->first && !addon->stopping && waited != ETIMEDOUT) waited = pthread_cond_timedwait(&addon->work, &addon->lock, &until);
  addon->idle--;
  struct call *c = addon->first;
  if (c) {
    addon->first = c->next;
    if (!c->next) addon->last = NULL;
    c->next = NULL;
  }
  return c;
}

static void *thread(void *given) {
  struct addon *addon = given;
  struct ended *ended = malloc(sizeof *ended);
  pthread_mutex_lock(&addon->lock);
  for (struct call *c; (c = next_call(addon));) {
    pthread_mutex_unlock(&addon->lock);
    c->raw->run(c);
    pthread_mutex_lock(&addon->lock);
    c->next = addon->over;
    addon->over = c;
    uv_async_send(&addon->wake);
  }
  addon->threads--;
  if (ended) {
    *ended = (struct ended){pthread_self(), addon->ended};
    addon->ended = ended;
  } else {
    pthread_detach(pthread_self());
  }
  if (addon->stopping) uv_async_send(&addon->wake);
  pthread_mutex_unlock(&addon->lock);
  return NULL;
}

/* Gives the call to a thread; false: none can be made. No signal of the program is handled there. */
static bool enqueue(struct call *c) {
  struct addon *addon = c->addon;
  bool placed = true;
  pthread_mutex_lock(&addon->lock);
  size_t waiting = 1;
  for (struct call *one = addon->first; one; one = one->next) waiting++;
  if (waiting > addon->idle) {
    sigset_t all, before;
    pthread_t made;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    placed = pthread_create(&made, NULL, thread, addon) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (placed) addon->threads++;
  }
  if (placed) {
    if (addon->last) addon->last->next = c;
    else addon->first = c;
    addon->last = c;
    pthread_cond_signal(&addon->work);
  }
  pthread_mutex_unlock(&addon->lock);
  return placed;
}

static void join_ended(struct addon *addon) {
  pthread_mutex_lock(&addon->lock);
  struct ended *ended = addon->ended;
  addon->ended = NULL;
  pthread_mutex_unlock(&addon->lock);
  while (ended) {
    struct ended *next = ended->next;
    pthread_join(ended->thread, NULL);
    free(ended);
    ended = next;
  }
}

/* -- Questions of a call to JavaScript ---------------------------------------------------------------------- */

/* Asks JavaScript on the call's thread, and waits for the answer; below 0 ends the call. */
static int64_t question(struct call *c, enum question kind, const char *record, void *buffer, size_t room) {
  struct addon *addon = c->addon;
  pthread_mutex_lock(&addon->lock);
  if (addon->stopping || c->cancelled) {
    pthread_mutex_unlock(&addon->lock);
    return -1;
  }
  c->question = kind;
  c->record = record;
  c->buffer = buffer;
  c->room = room;
  c->answered = false;
  c->asks = addon->asking;
  addon->asking = c;
  uv_async_send(&addon->wake);
  while (!c->answered) pthread_cond_wait(&c->told, &addon->lock);
  c->question = ASK_NOTHING;
  int64_t answer = c->answer;
  pthread_mutex_unlock(&addon->lock);
  return answer;
}

static int64_t ask_bytes(void *user, void *buffer, size_t room) { return question(user, ASK_BYTES, NULL, buffer, room); }

static int32_t ask_record(void *user, const char *record) {
  if (!record) return 0;
  return (int32_t)question(user, ASK_RECORD, record, NULL, 0);
}

/* Answers the question of a call; no question: nothing. The caller has the lock. */
static void answer_locked(struct call *c, int64_t value) {
  if (c->question == ASK_NOTHING || c->answered) return;
  c->answer = value;
  c->answered = true;
  pthread_cond_signal(&c->told);
}

/* Calls a function of JavaScript from the loop; an error that it throws is one that nobody catches. */
static void call_back(napi_env env, napi_ref function, size_t count, napi_value *arguments) {
  napi_value called = NULL, global = NULL, thrown = NULL;
  napi_get_reference_value(env, function, &called);
  napi_get_global(env, &global);
  if (!called || napi_make_callback(env, NULL, global, called, count, arguments, NULL) != napi_pending_exception) return;
  if (napi_get_and_clear_last_exception(env, &thrown) == napi_ok) napi_fatal_exception(env, thrown);
}

static void put_question(struct call *c) {
  napi_env env = c->addon->env;
  napi_handle_scope scope;
  pthread_mutex_lock(&c->addon->lock);
  bool asks = c->question != ASK_NOTHING && !c->answered;
  /* The call's thread waits, so the record stays. */
  bool bytes_wanted = c->question == ASK_BYTES;
  pthread_mutex_unlock(&c->addon->lock);
  if (!asks) return;
  napi_open_handle_scope(env, &scope);
  napi_value value = bytes_wanted ? number(env, (int64_t)c->room) : text(env, c->record);
  call_back(env, c->ask, 1, &value);
  napi_close_handle_scope(env, scope);
}

/* -- The end of a call ---------------------------------------------------------------------------------------- */

static void property(napi_env env, napi_value object, const char *name, napi_value value) { napi_set_named_property(env, object, name, value); }

/* The failure of a call, for JavaScript to make an error of; null: none. */
static napi_value failure(napi_env env, struct call *c) {
  napi_value made = NULL;
  if (c->status >= 0) return nothing(env);
  napi_create_object(env, &made);
  coracle_status code = c->error ? api.error_code(c->error) : (coracle_status)c->status;
  property(env, made, "code", text(env, api.status_name(code)));
  property(env, made, "status", number(env, c->error ? api.error_http_status(c->error) : 500));
  property(env, made, "errno", number(env, c->error ? api.error_errno(c->error) : 0));
  property(env, made, "area", text(env, c->error ? api.error_area(c->error) : ""));
  property(env, made, "message", text(env, c->error ? api.error_message(c->error) : api.status_name(code)));
  property(env, made, "detail", text(env, c->error ? api.error_detail(c->error) : "{}"));
  return made;
}

/* The answer of a call: [status, whatever comes out...]. */
static napi_value answers(napi_env env, struct call *c) {
  napi_value list = NULL;
  napi_create_array(env, &list);
  napi_set_element(env, list, 0, number(env, c->status));
  for (uint32_t i = 0; c->raw && c->raw->gives[i]; i++) napi_set_element(env, list, i + 1, give(env, c, c->raw->gives[i], &c->out[i]));
  return list;
}

static void drop_call(struct call *c) {
  napi_env env = c->addon->env;
  for (int i = 0; c->raw && c->raw->gives[i]; i++) {
    char kind = c->raw->gives[i];
    if (kind == 's') api.free(c->out[i].text);
    if (kind == 'c') free(c->out[i].text);
    if (kind == 'm') free(c->out[i].data);
    if (c->out[i].handle) release_value(kind, c->out[i].handle);
  }
  drop_arguments(c);
  api.error_free(c->error);
  api.op_free(c->op);
  if (c->name) c->name->call = NULL;
  if (c->done) napi_delete_reference(env, c->done);
  if (c->ask) napi_delete_reference(env, c->ask);
  if (c->kept) napi_delete_reference(env, c->kept);
  pthread_cond_destroy(&c->told);
}

static void list_call(struct call *c) {
  struct addon *addon = c->addon;
  c->after = addon->calls;
  if (addon->calls) addon->calls->before = c;
  addon->calls = c;
  if (addon->lasting++ == 0) uv_ref((uv_handle_t *)&addon->wake);
}

static void unlist_call(struct call *c) {
  struct addon *addon = c->addon;
  if (c->after) c->after->before = c->before;
  if (c->before) c->before->after = c->after;
  else addon->calls = c->after;
  if (--addon->lasting == 0) uv_unref((uv_handle_t *)&addon->wake);
}

static void poll_closed(uv_handle_t *handle) { free(handle->data); }

/* Ends a call on JavaScript's thread, and tells JavaScript. */
static void finish(struct call *c) {
  napi_env env = c->addon->env;
  bool polls = c->polls, tells = !c->addon->ending;
  napi_handle_scope scope = NULL;
  napi_open_handle_scope(env, &scope);
  napi_value arguments[2] = {NULL, NULL};
  napi_ref told = c->done;
  if (polls) uv_poll_stop(&c->poll);
  if (tells) {
    arguments[0] = failure(env, c);
    arguments[1] = c->status < 0 ? nothing(env) : answers(env, c);
    c->done = NULL;
  }
  unlist_call(c);
  int fd = c->fd;
  drop_call(c);
  if (fd >= 0) close(fd);
  if (polls) uv_close((uv_handle_t *)&c->poll, poll_closed);
  else free(c);
  if (tells) {
    call_back(env, told, 2, arguments);
    napi_delete_reference(env, told);
  }
  napi_close_handle_scope(env, scope);
}

/* -- Calls without a thread ------------------------------------------------------------------------------------ */

/* The answer of an operation that was begun: the places of the arguments that come out are by their kinds. */
static bool take_result(struct call *c) {
  coracle_result result = CORACLE_RESULT_INIT;
  c->status = api.op_result(c->op, &result, &c->error);
  if (c->status == CORACLE_AGAIN) return false;
  api.free(result.id);
  for (int i = 0; c->raw->gives[i]; i++) {
    if (c->raw->gives[i] == 'i') c->out[i].number = result.code;
    if (c->raw->gives[i] == 's') {
      c->out[i].text = result.json;
      result.json = NULL;
    }
  }
  api.free(result.json);
  return true;
}

static void polled(uv_poll_t *poll, int status, int events) {
  struct call *c = poll->data;
  (void)events;
  if (c->raw) {
    if (!take_result(c)) return;
  } else if (c->cancelled) {
    c->status = CORACLE_ECANCELLED;
  } else {
    c->status = status < 0 ? CORACLE_EIO : 0;
  }
  finish(c);
}

/* Has the loop look at a descriptor; false: it cannot. */
static bool poll_for(struct call *c, int fd) {
  if (uv_poll_init(c->addon->loop, &c->poll, fd) != 0) return false;
  c->poll.data = c;
  c->polls = true;
  return uv_poll_start(&c->poll, UV_READABLE, polled) == 0;
}

static void cancel(struct call *c) {
  struct addon *addon = c->addon;
  pthread_mutex_lock(&addon->lock);
  bool before = c->cancelled;
  c->cancelled = true;
  answer_locked(c, -1);
  if (c->polls && !c->raw && !before) {
    /* This call has no operation that would wake the loop. */
    uv_poll_stop(&c->poll);
    c->status = CORACLE_ECANCELLED;
    c->next = addon->over;
    addon->over = c;
    uv_async_send(&addon->wake);
  }
  pthread_mutex_unlock(&addon->lock);
  if (c->op) api.op_cancel(c->op);
}

/* -- The loop ----------------------------------------------------------------------------------------------------- */

static void wake_closed(uv_handle_t *handle) {
  struct addon *addon = handle->data;
  napi_remove_async_cleanup_hook(addon->hook);
  leave(addon);
}

static void tell_messages(struct addon *addon, struct message *message) {
  napi_env env = addon->env;
  while (message) {
    struct message *next = message->next;
    if (addon->log && !addon->ending) {
      napi_handle_scope scope;
      napi_open_handle_scope(env, &scope);
      napi_value arguments[3] = {number(env, message->level), text(env, message->target), text(env, message->text)};
      call_back(env, addon->log, 3, arguments);
      napi_close_handle_scope(env, scope);
    }
    free(message->target);
    free(message->text);
    free(message);
    message = next;
  }
}

/* The next call that asks; none: *over gets the calls that ended, none of which asks any more. */
static struct call *next_to_ask(struct addon *addon, struct call **over) {
  pthread_mutex_lock(&addon->lock);
  struct call *c = addon->asking;
  if (c) {
    addon->asking = c->asks;
  } else {
    *over = addon->over;
    addon->over = NULL;
  }
  pthread_mutex_unlock(&addon->lock);
  return c;
}

static void woken(uv_async_t *wake) {
  struct addon *addon = wake->data;
  struct call *over = NULL;
  pthread_mutex_lock(&addon->lock);
  struct message *messages = addon->messages;
  addon->messages = NULL;
  addon->message_end = &addon->messages;
  pthread_mutex_unlock(&addon->lock);
  tell_messages(addon, messages);
  for (struct call *c; (c = next_to_ask(addon, &over));) put_question(c);
  for (struct call *c = over, *next; c; c = next) {
    next = c->next;
    finish(c);
  }
  join_ended(addon);
  pthread_mutex_lock(&addon->lock);
  bool last = addon->ending && !addon->calls && addon->threads == 0 && !addon->ended;
  pthread_mutex_unlock(&addon->lock);
  if (last && !uv_is_closing((uv_handle_t *)wake)) uv_close((uv_handle_t *)wake, wake_closed);
}

#endif
