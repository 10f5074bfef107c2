/* The arguments of a call, from JavaScript and back. */

#ifndef CORACLE_NODE_VALUES_H
#define CORACLE_NODE_VALUES_H

#include "addon.h"
#include "raw.h"
#include <stdlib.h>
#include <string.h>

/* A handle of the library, in an external of JavaScript. */
struct held {
  struct addon *addon;
  char kind;
  void *value;
};

static napi_value hold(struct addon *addon, napi_env env, char kind, void *value);
static int64_t ask_bytes(void *user, void *buffer, size_t room);

char *copied(const char *text) { return text ? strdup(text) : NULL; }

void keep_frame(struct value_out *out, const coracle_frame *frame) {
  out->number = frame->channel;
  out->time = frame->time_ns;
  out->count = frame->data ? frame->len : 0;
  out->data = malloc(out->count + 1);
  if (!out->data) {
    out->count = 0;
  } else if (out->count) {
    memcpy(out->data, frame->data, out->count);
  }
}

static bool is_a(napi_env env, napi_value value, napi_valuetype wanted) {
  napi_valuetype type;
  return napi_typeof(env, value, &type) == napi_ok && type == wanted;
}

static bool is_nothing(napi_env env, napi_value value) { return is_a(env, value, napi_null) || is_a(env, value, napi_undefined); }

/* A text; null gives NULL. False: the value is of another type, or memory ran out. A NUL in it was refused by JavaScript. */
static bool take_text(napi_env env, napi_value value, char **text) {
  size_t length = 0;
  *text = NULL;
  if (is_nothing(env, value)) return true;
  if (napi_get_value_string_utf8(env, value, NULL, 0, &length) != napi_ok) return false;
  *text = malloc(length + 1);
  return *text && napi_get_value_string_utf8(env, value, *text, length + 1, &length) == napi_ok;
}

static bool take_number(napi_env env, napi_value value, int64_t *number) {
  bool truth;
  if (napi_get_value_bool(env, value, &truth) == napi_ok) {
    *number = truth;
    return true;
  }
  return napi_get_value_int64(env, value, number) == napi_ok;
}

/* The number of a list's member. */
static bool take_member(napi_env env, napi_value list, uint32_t at, int64_t *number) {
  napi_value one;
  return napi_get_element(env, list, at, &one) == napi_ok && take_number(env, one, number);
}

static bool take_numbers(napi_env env, napi_value list, struct value_in *in) {
  uint32_t count;
  if (napi_get_array_length(env, list, &count) != napi_ok) return false;
  in->numbers = calloc(count + 1, sizeof *in->numbers);
  in->count = count;
  for (uint32_t i = 0; in->numbers && i < count; i++) {
    int64_t number;
    if (!take_member(env, list, i, &number)) return false;
    in->numbers[i] = (int32_t)number;
  }
  return in->numbers != NULL;
}

/* The bytes are copied: JavaScript may give its memory away while the call lasts. */
static bool take_bytes(napi_env env, napi_value value, struct value_in *in) {
  void *data = NULL;
  bool is = false;
  if (is_nothing(env, value)) return true;
  if (napi_is_buffer(env, value, &is) != napi_ok || !is || napi_get_buffer_info(env, value, &data, &in->count) != napi_ok) return false;
  in->bytes = malloc(in->count + 1);
  if (in->bytes && in->count) memcpy(in->bytes, data, in->count);
  return in->bytes != NULL;
}

static bool take_room(napi_env env, napi_value value, struct value_in *in) {
  if (!take_number(env, value, &in->number) || in->number < 1) return false;
  in->count = (size_t)in->number;
  in->room = malloc(in->count);
  return in->room != NULL;
}

static bool take_source(napi_env env, napi_value value, struct call *c, struct value_in *in) {
  if (is_nothing(env, value)) return true;
  if (is_a(env, value, napi_boolean)) {
    in->read = ask_bytes;
    in->user = c;
    return true;
  }
  if (napi_get_value_int64(env, value, &in->number) != napi_ok) return false;
  in->read = api.read_fd;
  in->user = (void *)(intptr_t)in->number;
  return true;
}

static bool take_options(napi_env env, napi_value value, struct value_in *in) {
  napi_value one;
  int64_t flags = 0;
  if (is_nothing(env, value)) return true;
  if (napi_get_element(env, value, 0, &one) != napi_ok || !take_text(env, one, &in->text)) return false;
  if (napi_get_element(env, value, 1, &one) != napi_ok || !take_text(env, one, &in->second)) return false;
  if (!take_member(env, value, 2, &flags)) return false;
  in->options_room = (coracle_open_options){sizeof(coracle_open_options), in->text, in->second, (uint64_t)flags};
  in->options = &in->options_room;
  return true;
}

static bool take_io(napi_env env, napi_value value, struct value_in *in) {
  int64_t n[6];
  if (is_nothing(env, value)) return true;
  for (uint32_t i = 0; i < 6; i++) {
    if (!take_member(env, value, i, &n[i])) return false;
  }
  in->io_room = (coracle_io){sizeof(coracle_io), (uint64_t)n[5], (int32_t)n[0], (int32_t)n[1], (int32_t)n[2], (uint16_t)n[3], (uint16_t)n[4]};
  in->io = &in->io_room;
  return true;
}

static bool take_handle(napi_env env, napi_value value, char kind, struct value_in *in) {
  struct held *held = NULL;
  if (napi_get_value_external(env, value, (void **)&held) != napi_ok || held->kind != kind) return false;
  in->handle = held->value;
  return true;
}

/* Takes one argument of its kind. */
static bool take(napi_env env, napi_value value, char kind, struct call *c, struct value_in *in) {
  switch (kind) {
    case 't': return take_text(env, value, &in->text);
    case 'n': return take_number(env, value, &in->number);
    case 'b': return take_bytes(env, value, in);
    case 'r': return take_room(env, value, in);
    case 'a': return take_numbers(env, value, in);
    case 'f': return take_source(env, value, c, in);
    case 'p': return take_options(env, value, in);
    case 'j': return take_io(env, value, in);
    default: return take_handle(env, value, kind, in);
  }
}

static void drop_arguments(struct call *c) {
  for (int i = 0; i < TAKES; i++) {
    struct value_in *in = &c->in[i];
    free(in->text);
    free(in->second);
    free(in->bytes);
    free(in->room);
    free(in->numbers);
  }
}

static napi_value nothing(napi_env env) {
  napi_value made = NULL;
  napi_get_null(env, &made);
  return made;
}

static napi_value text(napi_env env, const char *value) {
  napi_value made = NULL;
  if (!value) return nothing(env);
  napi_create_string_utf8(env, value, NAPI_AUTO_LENGTH, &made);
  return made;
}

static napi_value number(napi_env env, int64_t value) {
  napi_value made = NULL;
  napi_create_int64(env, value, &made);
  return made;
}

static napi_value bytes(napi_env env, const void *data, size_t count) {
  napi_value made = NULL;
  napi_create_buffer_copy(env, count, data ? data : "", NULL, &made);
  return made;
}

static napi_value record(napi_env env, struct value_out *out) {
  napi_value list = NULL, time = NULL;
  napi_create_array_with_length(env, 3, &list);
  napi_create_bigint_int64(env, out->time, &time);
  napi_set_element(env, list, 0, number(env, out->number));
  napi_set_element(env, list, 1, time);
  napi_set_element(env, list, 2, bytes(env, out->data, out->count));
  return list;
}

/* The room of a call that reads. */
static void *room_of(struct call *c) {
  for (int i = 0; i < TAKES; i++) {
    if (c->in[i].room) return c->in[i].room;
  }
  return NULL;
}

/* One argument that comes out, of its kind. */
static napi_value give(napi_env env, struct call *c, char kind, struct value_out *out) {
  switch (kind) {
    case 's':
    case 'c': return text(env, out->text);
    case 'k': return text(env, c->said);
    case 'i': return number(env, out->number);
    case 'b': return bytes(env, room_of(c), c->status > 0 ? (size_t)c->status : 0);
    case 'm': return record(env, out);
    default: {
      void *value = out->handle;
      out->handle = NULL;
      return value ? hold(c->addon, env, kind, value) : nothing(env);
    }
  }
}

#endif
