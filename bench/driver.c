/*
 * Measurements of Coracle through the C ABI, in one process that stays: as a program would link it.
 *
 *   driver ROOT RUN
 *
 * The driver reads one order a line and answers `ok NANOSECONDS [TEXT]` or `error TEXT`:
 *   spawn PROGRAM ARG...          posix_spawn of a program and its wait: the peers, and the machine's own speed
 *   spawns FIRST COUNT THREADS PROGRAM ARG...   so many of them at once, `%` in an argument being the number
 *   pipe PROGRAM ARG...           spawn with its output read from a pipe
 *   load FILE, rmi NAME           load an archive; remove an image
 *   pull NAME, push NAME          from and to its registry
 *   save NAME                     an archive read to its end; TEXT is how many bytes
 *   tag NAME NEW                  another name
 *   commit ID NAME                an image of a container
 *   build QUERY                   build an image of a build file in the query; TEXT is the id
 *   life BODY                     create, start, wait, remove
 *   start NAME BODY               create and start, not waited for; TEXT is the id
 *   run NAME BODY                 create, start and wait; the time is that from the start on; TEXT is the id
 *   attach BODY                   create, start attached, read the output through the session, wait, remove
 *   attach-own BODY               the same with the output in the driver's own pipe
 *   attach-direct BODY            the same, and the process itself has that pipe
 *   logs ID                       read a log, record by record; TEXT is how many bytes
 *   exec ID BODY                  a second process: create, start attached, wait
 *   inspect ID                    one container; TEXT is its document
 *   network BODY                  make a network
 *   list                          all containers; TEXT is how many bytes of JSON
 *   stats ID COUNT                one sample COUNT times; NANOSECONDS of processor time for each
 *   create COUNT BODY             create so many, which stay
 *   crowd COUNT THREADS BODY      create and start so many, which stay
 *   clear THREADS                 remove by force all that stayed
 *   remove ID                     remove by force
 *   end WHERE BODY                create, start, wait, remove; NANOSECONDS from the clock that the process left in the file
 *                                 WHERE (`own:` before it: in the container's own layer) to wait's return, TEXT those
 *                                 to its die event
 *   stop BODY                     create, start, stop, remove; the time is that of the stop
 *   make BODY                     create one that stays; TEXT is the id
 *   put ID FILE DIR               extract the archive FILE into a directory of a container
 *   get ID PATH, export ID        an archive of a container's files, of all, read to its end; TEXT is how many bytes
 *   watch SECONDS                 a stream of samples of each that stays, all read once a second; NANOSECONDS of
 *                                 processor time for a second
 *   used                          TEXT is the processor time of the driver in ns
 *   open                          open the root once more, and close that
 * BODY is JSON without spaces at its ends, to the end of the line.
 */
#define _GNU_SOURCE
#include "coracle.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MOST_KEPT = 4096, MOST_THREADS = 64, BUFFER = 1 << 20 };

static coracle *engine;
static const char *root;
static coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
static _Thread_local coracle_error *failure;
static char kept[MOST_KEPT][65];
static atomic_int kept_count;
static char buffer[BUFFER];

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Whether a status is an error; positive ones (done, unchanged) are not. */
static int bad(coracle_status status) { return status < 0; }

static void answer_took(long long took, int failed, const char *text) {
    if (failed) {
        printf("error %s\n", failure ? coracle_error_message(failure) : text ? text : "failed");
    } else {
        printf("ok %lld %s\n", took, text ? text : "");
    }
    coracle_error_free(failure);
    failure = NULL;
    fflush(stdout);
}

static void answer(long long started, int failed, const char *text) { answer_took(now() - started, failed, text); }

/* The next word of an order; the rest stays in *words. */
static char *word(char **words) {
    char *first = strsep(words, " ");
    if (!*words) *words = "";
    return first ? first : "";
}

static int create(const char *name, const char *body, char id[65]) {
    char *given = NULL;
    if (bad(coracle_container_create(engine, name, body, NULL, &given, NULL, &failure))) return 0;
    snprintf(id, 65, "%s", given);
    coracle_free(given);
    return 1;
}

static int start(const char *id) { return !bad(coracle_container_start(engine, id, NULL, NULL, NULL, &failure)); }

static int wait_end(const char *id) {
    int32_t code = -1;
    return !bad(coracle_container_wait(engine, id, NULL, NULL, &code, NULL, &failure)) && code == 0;
}

static int remove_it(const char *id, uint64_t flags) {
    return !bad(coracle_container_remove(engine, id, flags, NULL, &failure));
}

static void life(char *body) {
    char id[65];
    long long started = now();
    int ok = create(NULL, body, id) && start(id) && wait_end(id) && remove_it(id, 0);
    answer(started, !ok, "the exit code is not 0");
}

static void start_one(char *words) {
    char id[65] = "", *name = word(&words);
    long long started = now();
    int ok = create(name, words, id) && start(id);
    answer(started, !ok, ok ? id : NULL);
}

static void run(char *words) {
    char id[65] = "", *name = word(&words);
    int ok = create(name, words, id);
    long long started = now();
    ok = ok && start(id) && wait_end(id);
    answer(started, !ok, ok ? id : "the exit code is not 0");
}

/* Reads a descriptor to its end; how many bytes came. */
static long long drain(int fd) {
    long long sum = 0;
    ssize_t got;
    while ((got = read(fd, buffer, sizeof buffer)) > 0) sum += got;
    return sum;
}

static void attach(char *body, int own, uint64_t flags) {
    char id[65], text[32];
    coracle_session *session = NULL;
    coracle_io io = CORACLE_IO_INIT;
    int pipes[2] = {-1, -1};
    if (own && pipe2(pipes, O_CLOEXEC)) return answer(0, 1, "pipe2");
    io.fd_out = pipes[1], io.flags = flags;
    int ok = create(NULL, body, id);
    long long started = now(), sum = 0;
    ok = ok && !bad(coracle_container_start(engine, id, &io, NULL, &session, &failure));
    if (own) close(pipes[1]);
    if (ok && own) {
        sum = drain(pipes[0]);
    } else if (ok) {
        int64_t got;
        while ((got = coracle_session_read(session, buffer, sizeof buffer, NULL, NULL, &failure)) > 0) sum += got;
        ok = got == 0;
    }
    long long took = now() - started;
    if (own) close(pipes[0]);
    coracle_session_free(session);
    ok = ok && wait_end(id) && remove_it(id, 0);
    snprintf(text, sizeof text, "%lld", sum);
    answer_took(took, !ok, text);
}

static void logs(char *id) {
    coracle_stream *stream = NULL;
    coracle_frame frame = CORACLE_FRAME_INIT;
    char text[32];
    long long sum = 0, started = now();
    coracle_status status = coracle_container_logs(engine, id, NULL, NULL, &stream, &failure);
    while (!bad(status) && (status = coracle_stream_next(stream, NULL, &frame, &failure)) == CORACLE_OK) sum += frame.len;
    coracle_stream_free(stream);
    snprintf(text, sizeof text, "%lld", sum);
    answer(started, bad(status), text);
}

static void exec(char *words) {
    char *container = word(&words), *id = NULL;
    int32_t code = -1;
    coracle_session *session = NULL;
    coracle_io io = CORACLE_IO_INIT;
    long long started = now();
    int ok = !bad(coracle_exec_create(engine, container, words, &id, &failure)) &&
             !bad(coracle_exec_start(engine, id, &io, NULL, &session, &failure)) &&
             !bad(coracle_session_wait(session, NULL, &code, &failure));
    coracle_session_free(session);
    answer(started, !ok || code != 0, "the exit code is not 0");
    coracle_free(id);
}

static int64_t read_file(void *user, void *into, size_t length) { return read(*(int *)user, into, length); }

static void load(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return answer(0, 1, "cannot open the archive");
    char *json = NULL;
    long long started = now();
    coracle_status status = coracle_image_load(engine, read_file, &file, NULL, &json, &failure);
    answer(started, bad(status), NULL);
    coracle_free(json);
    close(file);
}

static void build(const char *query) {
    char *id = NULL;
    long long started = now();
    coracle_status status = coracle_image_build(engine, query, NULL, NULL, NULL, &id, &failure);
    answer(started, bad(status), id);
    coracle_free(id);
}

static void rmi(const char *name) {
    char *json = NULL;
    long long started = now();
    coracle_status status = coracle_image_remove(engine, name, 0, NULL, &json, &failure);
    answer(started, bad(status), NULL);
    coracle_free(json);
}

static void pull(const char *name) {
    char *id = NULL;
    long long started = now();
    coracle_status status = coracle_image_pull(engine, name, NULL, NULL, &id, &failure);
    answer(started, bad(status), id);
    coracle_free(id);
}

static void push(const char *name) {
    char *json = NULL;
    long long started = now();
    coracle_status status = coracle_image_push(engine, name, NULL, NULL, &json, &failure);
    answer(started, bad(status), NULL);
    coracle_free(json);
}

/* Answers with how many bytes a stream had, after reading all. */
static void answer_bytes(long long started, coracle_status status, coracle_stream *stream) {
    char text[32];
    long long sum = 0;
    int64_t got = -1;
    while (!bad(status) && (got = coracle_stream_read(stream, buffer, sizeof buffer, NULL, &failure)) > 0) sum += got;
    coracle_stream_free(stream);
    snprintf(text, sizeof text, "%lld", sum);
    answer(started, bad(status) || got != 0, text);
}

static void save(const char *name) {
    char json[512];
    coracle_stream *stream = NULL;
    snprintf(json, sizeof json, "\"%s\"", name);
    long long started = now();
    coracle_status status = coracle_image_save(engine, json, NULL, &stream, &failure);
    answer_bytes(started, status, stream);
}

static void get(char *words) {
    coracle_stream *stream = NULL;
    char *container = word(&words);
    long long started = now();
    coracle_status status = coracle_container_get_archive(engine, container, words, NULL, &stream, NULL, &failure);
    answer_bytes(started, status, stream);
}

static void export(const char *container) {
    coracle_stream *stream = NULL;
    long long started = now();
    coracle_status status = coracle_container_export(engine, container, NULL, &stream, &failure);
    answer_bytes(started, status, stream);
}

static void put(char *words) {
    char *container = word(&words), *path = word(&words);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return answer(0, 1, "cannot open the archive");
    long long started = now();
    coracle_status status = coracle_container_put_archive(engine, container, words, NULL, read_file, &file, NULL, &failure);
    answer(started, bad(status), NULL);
    close(file);
}

static void tag(char *words) {
    char *name = word(&words);
    long long started = now();
    answer(started, bad(coracle_image_tag(engine, name, words, &failure)), NULL);
}

static void commit(char *words) {
    char *container = word(&words), json[512], *id = NULL;
    snprintf(json, sizeof json, "{\"repo\":\"%s\"}", words);
    long long started = now();
    coracle_status status = coracle_container_commit(engine, container, json, NULL, NULL, &id, &failure);
    answer(started, bad(status), id);
    coracle_free(id);
}

static long long used(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int sample(const char *id) {
    coracle_stream *stream = NULL;
    coracle_frame frame = {.size = sizeof frame};
    int ok = !bad(coracle_container_stats(engine, id, "{\"stream\":false,\"one-shot\":true}", NULL, &stream, &failure)) &&
             coracle_stream_next(stream, NULL, &frame, &failure) == CORACLE_OK && frame.len > 0;
    coracle_stream_free(stream);
    return ok;
}

static void stats(char *words) {
    char *number = strchr(words, ' ');
    int count = number ? atoi(number + 1) : 0;
    if (count <= 0) return answer(0, 1, "stats ID COUNT");
    *number = 0;
    long long started = used();
    for (int i = 0; i < count; i++) {
        if (!sample(words)) return answer(0, 1, "no sample");
    }
    printf("ok %lld\n", (used() - started) / count);
    fflush(stdout);
}

/* Samples of all that run, once a second as a display would have them. */
static void watch(int seconds) {
    static coracle_stream *streams[MOST_KEPT];
    coracle_frame frame = CORACLE_FRAME_INIT;
    int count = 0, ok = 1;
    for (int i = 0; ok && i < kept_count; i++) {
        char *json = NULL;
        ok = !bad(coracle_container_inspect(engine, kept[i], 0, &json, &failure));
        if (ok && strstr(json, "\"Running\":true")) {
            ok = !bad(coracle_container_stats(engine, kept[i], NULL, NULL, &streams[count++], &failure));
        }
        coracle_free(json);
    }
    long long before = 0;
    // The first samples are those of the beginning.
    for (int second = 0; ok && second <= seconds; second++) {
        if (second == 1) before = used();
        for (int i = 0; ok && i < count; i++) ok = coracle_stream_next(streams[i], NULL, &frame, &failure) == CORACLE_OK;
    }
    long long took = seconds > 0 ? (used() - before) / seconds : 0;
    for (int i = 0; i < count; i++) coracle_stream_free(streams[i]);
    answer_took(took, !ok || !count, "nothing runs");
}

static void list(void) {
    char *json = NULL, size[32] = "";
    long long started = now();
    coracle_status status = coracle_container_list(engine, "{\"all\":true}", &json, &failure);
    long long took = now() - started;
    if (!bad(status)) snprintf(size, sizeof size, "%zu", strlen(json));
    answer_took(took, bad(status), size);
    coracle_free(json);
}

static void inspect(const char *id) {
    char *json = NULL;
    long long started = now();
    coracle_status status = coracle_container_inspect(engine, id, 0, &json, &failure);
    answer_took(now() - started, bad(status), json);
    coracle_free(json);
}

static void network(const char *body) {
    char *json = NULL;
    long long started = now();
    coracle_status status = coracle_network_create(engine, body, NULL, &json, NULL, &failure);
    answer(started, bad(status), NULL);
    coracle_free(json);
}

static void open_again(void) {
    coracle *other = NULL;
    long long started = now();
    coracle_status status = coracle_open(root, &options, &other, &failure);
    answer(started, bad(status), NULL);
    coracle_close(other);
}

/* Work that several threads share: number after number until all are taken, or one failed. */
struct crowd {
    int (*work)(int number, void *with);
    void *with;
    atomic_int next, failed;
    int end;
    char text[512];
};

static void *member(void *with) {
    struct crowd *crowd = with;
    int number;
    while (!crowd->failed && (number = crowd->next++) < crowd->end) {
        if (crowd->work(number, crowd->with)) continue;
        if (!crowd->failed++) {
            snprintf(crowd->text, sizeof crowd->text, "%s", failure ? coracle_error_message(failure) : "failed");
        }
        coracle_error_free(failure);
        failure = NULL;
    }
    return NULL;
}

static void crowd(int from, int end, int threads, int (*work)(int, void *), void *with) {
    struct crowd crowd = {.work = work, .with = with, .next = from, .end = end};
    pthread_t ids[MOST_THREADS];
    if (threads < 1 || threads > MOST_THREADS) return answer(0, 1, "so many threads are not possible");
    long long started = now();
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, member, &crowd)) abort();
    }
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    answer(started, crowd.failed, crowd.failed ? crowd.text : NULL);
}

static int keep_created(int number, void *body) {
    char id[65];
    if (!create(NULL, body, id)) return 0;
    (void)number;
    int place = kept_count++;
    if (place >= MOST_KEPT) return 0;
    memcpy(kept[place], id, sizeof id);
    return 1;
}

static int keep_started(int number, void *body) {
    char id[65];
    (void)number;
    if (!create(NULL, body, id)) return 0;
    int place = kept_count++;
    if (place >= MOST_KEPT) return 0;
    memcpy(kept[place], id, sizeof id);
    return start(id);
}

static int remove_kept(int number, void *with) {
    (void)with;
    return remove_it(kept[number], CORACLE_REMOVE_FORCE);
}

/* The start of a program by Python takes longer than some of these measurements: so the peers are started here. */
static int spawn(char **arguments, int out) {
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 0, "/dev/null", O_RDONLY, 0);
    if (out >= 0) posix_spawn_file_actions_adddup2(&quiet, out, 1);
    else posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    pid_t pid;
    int failed = posix_spawnp(&pid, arguments[0], &quiet, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&quiet);
    return failed ? -1 : pid;
}

static int ended_well(pid_t pid) {
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

enum { MOST_WORDS = 32 };

static void split(char *words, char *arguments[MOST_WORDS + 1]) {
    int count = 0;
    while (count < MOST_WORDS && (arguments[count] = strsep(&words, " ")) != NULL) count++;
    arguments[count] = NULL;
}

static void spawn_one(char *words) {
    char *arguments[MOST_WORDS + 1];
    split(words, arguments);
    long long started = now();
    int ok = ended_well(spawn(arguments, -1));
    answer(started, !ok, "the program failed");
}

static void spawn_pipe(char *words) {
    char *arguments[MOST_WORDS + 1], text[32];
    int pipes[2];
    split(words, arguments);
    if (pipe2(pipes, O_CLOEXEC)) return answer(0, 1, "pipe2");
    long long started = now();
    pid_t pid = spawn(arguments, pipes[1]);
    close(pipes[1]);
    long long sum = drain(pipes[0]), took = now() - started;
    close(pipes[0]);
    snprintf(text, sizeof text, "%lld", sum);
    answer_took(took, !ended_well(pid), text);
}

static int spawn_number(int number, void *with) {
    char **words = with, *arguments[MOST_WORDS + 1], texts[MOST_WORDS][512];
    int count = 0;
    for (; words[count]; count++) {
        char *mark = strchr(words[count], '%');
        arguments[count] = words[count];
        if (!mark) continue;
        snprintf(texts[count], sizeof texts[count], "%.*s%d%s", (int)(mark - words[count]), words[count], number, mark + 1);
        arguments[count] = texts[count];
    }
    arguments[count] = NULL;
    return ended_well(spawn(arguments, -1));
}

static void spawns(char *words) {
    char *arguments[MOST_WORDS + 1];
    int first = atoi(word(&words)), count = atoi(word(&words)), threads = atoi(word(&words));
    split(words, arguments);
    crowd(first, first + count, threads, spawn_number, arguments);
}

static long long clock_in(const char *path) {
    char text[32] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0) text[0] = 0;
    close(file);
    return atoll(text);
}

struct die {
    coracle_events *events;
    long long at;
};

static void *until_die(void *with) {
    struct die *die = with;
    const char *json = NULL;
    coracle_error *failed = NULL;
    while (!die->at && coracle_events_next(die->events, -1, &json, &failed) == CORACLE_OK) {
        if (strstr(json, "\"die\"")) die->at = now();
    }
    coracle_error_free(failed);
    return NULL;
}

static void end(char *words) {
    char id[65], text[32], own[4096];
    const char *where = word(&words);
    struct die die = {0};
    pthread_t listener;
    int ok = create(NULL, words, id) && !bad(coracle_events_open(engine, NULL, &die.events, &failure));
    if (!ok) return answer_took(0, 1, NULL);
    if (pthread_create(&listener, NULL, until_die, &die)) abort();
    ok = start(id) && wait_end(id);
    long long returned = now();
    pthread_join(listener, NULL);
    coracle_events_free(die.events);
    if (!strncmp(where, "own:", 4)) {
        snprintf(own, sizeof own, "%s/containers/%s/upper%s", root, id, where + 4);
        where = own;
    }
    long long ended = clock_in(where);
    ok = ok && ended && remove_it(id, 0);
    snprintf(text, sizeof text, "%lld", die.at - ended);
    answer_took(returned - ended, !ok, text);
}

static void stop(char *body) {
    char id[65];
    int ok = create(NULL, body, id) && start(id);
    // Until it has said what it does at SIGTERM the kernel ignores one for it.
    usleep(20000);
    long long started = now();
    ok = ok && !bad(coracle_container_stop(engine, id, 10000, NULL, &failure));
    long long took = now() - started;
    ok = ok && remove_it(id, 0);
    answer_took(took, !ok, NULL);
}

static void order(char *what, char *words) {
    if (!strcmp(what, "life")) life(words);
    else if (!strcmp(what, "exec")) exec(words);
    else if (!strcmp(what, "start")) start_one(words);
    else if (!strcmp(what, "run")) run(words);
    else if (!strcmp(what, "attach")) attach(words, 0, 0);
    else if (!strcmp(what, "attach-own")) attach(words, 1, 0);
    else if (!strcmp(what, "attach-direct")) attach(words, 1, CORACLE_IO_DIRECT);
    else if (!strcmp(what, "logs")) logs(words);
    else if (!strcmp(what, "load")) load(words);
    else if (!strcmp(what, "rmi")) rmi(words);
    else if (!strcmp(what, "build")) build(words);
    else if (!strcmp(what, "inspect")) inspect(words);
    else if (!strcmp(what, "network")) network(words);
    else if (!strcmp(what, "end")) end(words);
    else if (!strcmp(what, "stop")) stop(words);
    else if (!strcmp(what, "pull")) pull(words);
    else if (!strcmp(what, "push")) push(words);
    else if (!strcmp(what, "save")) save(words);
    else if (!strcmp(what, "tag")) tag(words);
    else if (!strcmp(what, "commit")) commit(words);
    else if (!strcmp(what, "put")) put(words);
    else if (!strcmp(what, "get")) get(words);
    else if (!strcmp(what, "export")) export(words);
    else if (!strcmp(what, "watch")) watch(atoi(words));
    else if (!strcmp(what, "list")) list();
    else if (!strcmp(what, "stats")) stats(words);
    else if (!strcmp(what, "open")) open_again();
    else if (!strcmp(what, "spawn")) spawn_one(words);
    else if (!strcmp(what, "spawns")) spawns(words);
    else if (!strcmp(what, "pipe")) spawn_pipe(words);
    else if (!strcmp(what, "create")) {
        int count = atoi(word(&words));
        crowd(0, count, 1, keep_created, words);
    } else if (!strcmp(what, "crowd")) {
        int count = atoi(word(&words)), threads = atoi(word(&words));
        crowd(0, count, threads, keep_started, words);
    } else if (!strcmp(what, "clear")) {
        crowd(0, kept_count, atoi(words), remove_kept, NULL);
        kept_count = 0;
    } else if (!strcmp(what, "remove")) {
        long long started = now();
        int ok = remove_it(words, CORACLE_REMOVE_FORCE);
        answer(started, !ok, NULL);
    } else if (!strcmp(what, "make")) {
        char id[65] = "";
        long long started = now();
        int ok = create(NULL, words, id);
        answer(started, !ok, ok ? id : NULL);
    } else if (!strcmp(what, "used")) {
        char text[32];
        snprintf(text, sizeof text, "%lld", used());
        answer_took(0, 0, text);
    } else answer(0, 1, "unknown order");
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: driver ROOT RUN [CONFIG]\n");
        return 2;
    }
    root = argv[1];
    options.run_dir = argv[2];
    options.config_json = argv[3];
    if (bad(coracle_open(root, &options, &engine, &failure))) {
        fprintf(stderr, "driver: %s\n", failure ? coracle_error_message(failure) : "open failed");
        return 1;
    }
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    while ((length = getline(&line, &size, stdin)) > 0) {
        if (line[length - 1] == '\n') line[length - 1] = 0;
        char *rest = line, *what = word(&rest);
        order(what, rest);
    }
    free(line);
    coracle_close(engine);
    return 0;
}
