/* Both ends of a measured connection, and a client of a container's resolver. Linked statically: it runs in containers.
 *
 *   wire serve PORT                 answers one connection after the other: what its first byte says
 *   wire connect HOST PORT COUNT    that many connections, one byte there and back on each
 *   wire trip HOST PORT COUNT       that many bytes there and back on one connection
 *   wire take HOST PORT BYTES       takes that many bytes
 *   wire lookup NAME COUNT          asks 127.0.0.11 that often
 *
 * Prints nanoseconds. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char room[1 << 18];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct sockaddr_in address(const char *host, const char *port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1) fail(host);
    return to;
}

static void at_once(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void serve(const char *port) {
    struct sockaddr_in here = address("0.0.0.0", port);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    signal(SIGPIPE, SIG_IGN);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 128)) fail("serve");
    for (;;) {
        char kind = 0;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) continue;
        at_once(fd);
        if (read(fd, &kind, 1) == 1) {
            if (kind == 'c') {
                if (write(fd, &kind, 1) != 1) kind = 0;
            } else if (kind == 't') {
                while (write(fd, room, sizeof room) > 0) { }
            } else {
                ssize_t got;
                while ((got = read(fd, room, sizeof room)) > 0 && write(fd, room, (size_t)got) == got) { }
            }
        }
        close(fd);
    }
}

static int reach(struct sockaddr_in *to, char kind) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)to, sizeof *to)) fail("connect");
    at_once(fd);
    if (write(fd, &kind, 1) != 1) fail("write");
    return fd;
}

static void connections(struct sockaddr_in to, long count) {
    while (count--) {
        char byte;
        int fd = reach(&to, 'c');
        if (read(fd, &byte, 1) != 1) fail("read");
        /* The other end closes first: no port of this end waits. */
        if (read(fd, &byte, 1) != 0) fail("end");
        close(fd);
    }
}

static void trips(struct sockaddr_in to, long count) {
    int fd = reach(&to, 'r');
    char byte = 'x';
    while (count--)
        if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1) fail("trip");
    close(fd);
}

static void take(struct sockaddr_in to, long long bytes) {
    int fd = reach(&to, 't');
    while (bytes > 0) {
        ssize_t got = read(fd, room, sizeof room);
        if (got <= 0) fail("take");
        bytes -= got;
    }
    close(fd);
}

static void lookups(const char *name, long count) {
    struct sockaddr_in to = address("127.0.0.11", "53");
    struct timeval limit = {.tv_sec = 5};
    unsigned char query[300] = {0, 0, 1, 0, 0, 1}, answer[600];
    size_t length = 12, part = strlen(name);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    query[length++] = (unsigned char)part;
    memcpy(query + length, name, part);
    length += part;
    memcpy(query + length, "\0\0\1\0\1", 5);
    length += 5;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) fail("connect");
    while (count--) {
        query[0] = (unsigned char)(count >> 8);
        query[1] = (unsigned char)count;
        if (send(fd, query, length, 0) < 0 || recv(fd, answer, sizeof answer, 0) < 20 || !answer[7]) fail("lookup");
    }
    close(fd);
}

int main(int argc, char **argv) {
    long long begun;
    if (argc == 3 && !strcmp(argv[1], "serve")) serve(argv[2]);
    begun = now();
    if (argc == 5 && !strcmp(argv[1], "connect")) connections(address(argv[2], argv[3]), atol(argv[4]));
    else if (argc == 5 && !strcmp(argv[1], "trip")) trips(address(argv[2], argv[3]), atol(argv[4]));
    else if (argc == 5 && !strcmp(argv[1], "take")) take(address(argv[2], argv[3]), atoll(argv[4]));
    else if (argc == 4 && !strcmp(argv[1], "lookup")) lookups(argv[2], atol(argv[3]));
    else return 2;
    printf("%lld\n", now() - begun);
    return 0;
}
