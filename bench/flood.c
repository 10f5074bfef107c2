/*
 * Writes TOTAL bytes in lines of LENGTH (newline included) to its standard output, in pieces of 64 KiB, and how many
 * nanoseconds that took to the file TIME.
 *
 *   flood LENGTH TOTAL [TIME]
 *   flood end TIME          waits a tenth of a second, writes the clock to TIME and ends at once
 *   flood tick COUNT        writes COUNT lines, each with the clock, a twentieth of a second apart
 *   flood willing           ends at once at SIGTERM
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void leave(int signal) {
    (void)signal;
    _exit(0);
}

static int end(const char *path) {
    char text[32];
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    usleep(100000);
    int length = snprintf(text, sizeof text, "%lld\n", now());
    _exit(write(file, text, length) == length ? 0 : 1);
}

static int tick(long count) {
    for (; count > 0; count--) {
        char text[32];
        usleep(50000);
        int length = snprintf(text, sizeof text, "at=%lld\n", now());
        if (write(1, text, length) != length) return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "willing")) {
        signal(SIGTERM, leave);
        for (;;) pause();
    }
    if (argc < 3) return 2;
    if (!strcmp(argv[1], "end")) return end(argv[2]);
    if (!strcmp(argv[1], "tick")) return tick(atol(argv[2]));
    long length = atol(argv[1]), total = atol(argv[2]);
    if (length < 1 || length > PIECE) return 2;
    static char piece[2 * PIECE];
    for (int i = 0; i < 2 * PIECE; i++) piece[i] = (i + 1) % length == 0 ? '\n' : 'a' + i % 26;
    long long started = now();
    for (long sent = 0; sent < total;) {
        long want = total - sent < PIECE ? total - sent : PIECE;
        long wrote = write(1, piece + sent % length, want);
        if (wrote < 0) return 1;
        sent += wrote;
    }
    long long took = now() - started;
    if (argc > 3) {
        FILE *file = fopen(argv[3], "w");
        if (!file || fprintf(file, "%lld\n", took) < 0 || fclose(file)) return 1;
    }
    return 0;
}
