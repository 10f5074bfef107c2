/*
 * A job runner: jobs ROOT [N] < LIST. Each line of the list is a command; N of them (default 4) run at a time, each in a
 * container of its own, made of the image busybox. When a job ends, its exit code and its output are printed. If this program
 * ends, also by kill -9, the kernel notifies the monitors of its containers, and they end: no job is left.
 */
#include <coracle.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

/* A job that runs; `end` is the operation that waits for it. */
struct job {
    int number;
    char *command;
    char *id;
    coracle_op *end;
};

static coracle *engine;
static coracle_error *error;

/* Ends the program where a call failed; a result above 0 is a success with a remark. */
static coracle_status check(coracle_status status) {
    if (status >= 0) return status;
    fprintf(stderr, "%s: %s\n", coracle_status_name(status), error ? coracle_error_message(error) : "");
    exit(1);
}

/* The body of a create request: the command goes to a shell, as a text of JSON. */
static char *body_of(const char *command) {
    char *body;
    size_t size;
    FILE *out = open_memstream(&body, &size);
    if (!out) return NULL;
    fputs("{\"Image\": \"busybox\", \"HostConfig\": {\"NetworkMode\": \"none\"}, \"Cmd\": [\"sh\", \"-c\", \"", out);
    for (; *command; command++) {
        if ((unsigned char)*command < ' ') fprintf(out, "\\u%04x", *command);
        else fprintf(out, *command == '"' || *command == '\\' ? "\\%c" : "%c", *command);
    }
    fputs("\"]}", out);
    return fclose(out) == 0 ? body : NULL;
}

/* Starts a job, and begins to wait for its end: the call returns at once, and the operation's descriptor polls. */
static void begin(struct job *job) {
    char *body = body_of(job->command);
    check(coracle_container_create(engine, NULL, body, NULL, &job->id, NULL, &error));
    check(coracle_container_start(engine, job->id, NULL, NULL, NULL, &error));
    check(coracle_op_new(CORACLE_OP_NONBLOCK, &job->end, &error));
    check(coracle_container_wait(engine, job->id, NULL, job->end, NULL, NULL, &error));
    free(body);
}

/* Prints a job's exit code and output, and removes its container. */
static void finish(struct job *job, int code) {
    coracle_stream *log;
    coracle_frame line = CORACLE_FRAME_INIT;
    printf("[%d] exit code %d: %s\n", job->number, code, job->command);
    check(coracle_container_logs(engine, job->id, NULL, NULL, &log, &error));
    while (check(coracle_stream_next(log, NULL, &line, &error)) == CORACLE_OK)
        printf("    %s%.*s", line.channel == CORACLE_STDERR ? "! " : "", (int)line.len, (const char *)line.data);
    fflush(stdout);
    coracle_stream_free(log);
    check(coracle_container_remove(engine, job->id, 0, NULL, &error));
    coracle_op_free(job->end);
    coracle_free(job->id);
    free(job->command);
}

/* The next command of the list; NULL at its end. */
static char *next_command(void) {
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    while ((length = getline(&line, &size, stdin)) > 0) {
        if (line[length - 1] == '\n') line[length - 1] = '\0';
        if (line[0] != '\0' && line[0] != '#') return line;
    }
    free(line);
    return NULL;
}

int main(int count, char **arguments) {
    struct job jobs[MOST];
    struct pollfd ends[MOST];
    int width = count > 2 ? atoi(arguments[2]) : 4, running = 0, started = 0, failed = 0;
    if (count < 2 || width < 1 || width > MOST) {
        fprintf(stderr, "usage: jobs ROOT [N] < LIST, where N is at most %d\n", MOST);
        return 2;
    }
    /* Containers of this handle end with it. */
    coracle_open_options options = CORACLE_OPEN_OPTIONS_INIT;
    options.flags = CORACLE_OPEN_EPHEMERAL;
    check(coracle_open(arguments[1], &options, &engine, &error));

    char *command = next_command();
    while (command || running > 0) {
        if (command && running < width) {
            jobs[running] = (struct job){.number = ++started, .command = command};
            begin(&jobs[running++]);
            command = next_command();
            continue;
        }
        for (int i = 0; i < running; i++) ends[i] = (struct pollfd){.fd = coracle_op_fd(jobs[i].end), .events = POLLIN};
        if (poll(ends, running, -1) < 0 && errno != EINTR) return 1;
        for (int i = running - 1; i >= 0; i--) {
            coracle_result result = CORACLE_RESULT_INIT;
            if (!ends[i].revents || check(coracle_op_result(jobs[i].end, &result, &error)) == CORACLE_AGAIN) continue;
            coracle_free(result.json);
            failed += result.code != 0;
            finish(&jobs[i], result.code);
            jobs[i] = jobs[--running];
        }
    }
    printf("%d jobs, %d failed\n", started, failed);
    coracle_close(engine);
    return failed > 0;
}
