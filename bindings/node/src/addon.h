/*
 * The addon of the Node binding: the types that its files share.
 *
 * A call of JavaScript is a `struct call`. It runs on the thread of JavaScript (`sync`), on a thread of the addon (`run`), or, if it
 * waits for the end of a process, on no thread at all: its operation's descriptor is polled by the loop (`wait`). No call uses the
 * pool of libuv, whose four threads serve files and names, too.
 */

#ifndef CORACLE_NODE_ADDON_H
#define CORACLE_NODE_ADDON_H

#define NAPI_VERSION 8
#include <coracle.h>
#include <node_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

/* The most arguments that go in, and that come out, of a function. */
#define TAKES 8
#define GIVES 3

/*
 * An argument that goes in. Its kind in a row of the table:
 * E S R V H a handle (engine, session, stream, events, server) | t a text, or null | n a number | b bytes | r room for bytes: a number
 * a a list of numbers | f the source of an archive: a descriptor, true (JavaScript is asked for the bytes), or null
 * p options of an open: [run directory, configuration, flags] | j streams: [stdin, stdout, stderr, rows, columns, flags], or null
 */
struct value_in {
  void *handle;
  char *text;
  char *second;
  int64_t number;
  void *bytes;
  void *room;
  int32_t *numbers;
  size_t count;
  coracle_read_fn read;
  void *user;
  coracle_open_options *options, options_room;
  coracle_io *io, io_room;
};

/*
 * An argument that comes out. Its kind:
 * E S R V H a handle | s a text of the library | c a text of the addon | k the answer, a text that stays | i a number
 * b the bytes in the room | m a record: [channel, time in nanoseconds, bytes]
 */
struct value_out {
  void *handle;
  char *text;
  int32_t number;
  int64_t time;
  void *data;
  size_t count;
};

struct addon;

/* The question of a call to JavaScript, which the call's thread waits for. */
enum question { ASK_NOTHING, ASK_RECORD, ASK_BYTES };

struct call {
  struct addon *addon;
  const struct raw *raw;
  struct value_in in[TAKES];
  struct value_out out[GIVES];
  int64_t status;
  const char *said;
  coracle_op *op;
  coracle_error *error;
  /* JavaScript's function for the end, its function for questions, and its arguments, which keep the handles. */
  napi_ref done, ask, kept;
  /* The question, under the addon's lock. */
  enum question question;
  const char *record;
  char *buffer;
  size_t room;
  int64_t answer;
  bool answered, cancelled;
  pthread_cond_t told;
  /* A call without a thread: its descriptor in the loop. */
  uv_poll_t poll;
  int fd;
  bool polls;
  /* The external of JavaScript that names the call. */
  struct call_name *name;
  struct call *next, *asks, *before, *after;
};

struct raw {
  const char *name, *takes, *gives;
  bool lasts;
  void (*run)(struct call *);
};

struct raw_number {
  const char *name;
  int64_t value;
};

/* A text that the library keeps only until the next call, copied. */
char *copied(const char *text);
/* A record, which the library keeps as long, copied. */
void keep_frame(struct value_out *out, const coracle_frame *frame);

#endif
