/*
 * For hosts that are not written in C: the main job of tests/c/main.c as a function, and the facts that a program sees of
 * itself, as a text. Every language can call both.
 */
#define main main_job
#include "../c/main.c"
#undef main

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

/* The main job on a root of its own; how many checks failed, -1 where it did not run. */
__attribute__((visibility("default"))) int host_job(const char *root, const char *run, const char *image, int report) {
    char *argv[] = {(char *)"job", (char *)root, (char *)run, (char *)image, NULL};
    report_fd = report;
    passed = failed = 0;
    main_job(4, argv);
    return passed ? failed : -1;
}

static void note(char **lines, int *count, const char *format, const char *name, const char *value) {
    char line[4400];
    snprintf(line, sizeof line, format, name, value);
    for (int i = 0; i < *count; i++)
        if (!strcmp(lines[i], line)) return;
    if (*count < 4000) lines[(*count)++] = strdup(line);
}

static int in_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void note_file(char **lines, int *count, const char *path, const char *const *words) {
    char line[4096], name[64];
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        int wanted = !words;
        for (int i = 0; words && words[i]; i++) wanted |= strstr(line, words[i]) != NULL;
        snprintf(name, sizeof name, "%s", strrchr(path, '/'));
        if (wanted) note(lines, count, "%s %s", name, line);
    }
    if (file) fclose(file);
}

/*
 * The facts that the program sees of itself, as sorted lines, for host_free. The threads of a runtime come and go: the set has
 * the facts of any of them. Descriptors count if they can be inherited or belong to the root or its run directory.
 */
__attribute__((visibility("default"))) char *host_look(const char *root, const char *run) {
    static const char *const rights[] = {"Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "Seccomp", "Umask:", "SigIgn:", "SigCgt:",
                                         "_allowed_list:", NULL};
    static const char *const spaces[] = {"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"};
    const char *const ours[] = {root, run, NULL};
    extern char **environ;
    char **lines = calloc(4096, sizeof *lines), path[512], target[4096];
    int count = 0, subreaper = 0;
    for (int signal = 1; signal <= 64; signal++) {
        struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = {0};
        syscall(SYS_rt_sigaction, signal, NULL, &action, 8);
        snprintf(path, sizeof path, "%d", signal);
        snprintf(target, sizeof target, "%p %lx %lx", action.handler, action.flags, action.mask);
        note(lines, &count, "signal %s %s", path, target);
    }
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.') continue;
        for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
            snprintf(path, sizeof path, "/proc/self/task/%.32s/ns/%s", task->d_name, spaces[i]);
            ssize_t length = readlink(path, target, sizeof target - 1);
            target[length < 0 ? 0 : length] = 0;
            if (length > 0) note(lines, &count, "%s %s", "namespace", target);
        }
        snprintf(path, sizeof path, "/proc/self/task/%.32s/status", task->d_name);
        note_file(lines, &count, path, rights);
    }
    if (tasks) closedir(tasks);
    note_file(lines, &count, "/proc/self/limits", NULL);
    note_file(lines, &count, "/proc/self/oom_score_adj", NULL);
    note_file(lines, &count, "/proc/self/personality", NULL);
    note_file(lines, &count, "/proc/self/cgroup", NULL);
    note_file(lines, &count, "/proc/self/mountinfo", ours);
    for (char **variable = environ; variable && *variable; variable++) note(lines, &count, "%s %s", "environment", *variable);
    note(lines, &count, "%s %s", "cwd", getcwd(target, sizeof target) ? target : "?");
    DIR *descriptors = opendir("/proc/self/fd");
    for (struct dirent *entry; descriptors && (entry = readdir(descriptors));) {
        int fd = atoi(entry->d_name), flags = fcntl(fd, F_GETFD);
        if (entry->d_name[0] == '.' || fd == dirfd(descriptors) || flags < 0) continue;
        ssize_t length = readlinkat(dirfd(descriptors), entry->d_name, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = 0;
        if (!(flags & FD_CLOEXEC) || strstr(target, root) || strstr(target, run))
            note(lines, &count, "descriptor %s %s", entry->d_name, target);
    }
    if (descriptors) closedir(descriptors);
    for (int which = 0; which < 3; which++) {
        struct itimerval timer;
        getitimer(which, &timer);
        snprintf(target, sizeof target, "%d %ld.%06ld", which, (long)timer.it_interval.tv_sec, (long)timer.it_interval.tv_usec);
        note(lines, &count, "%s %s", "timer", target);
    }
    prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
    snprintf(target, sizeof target, "subreaper %d dumpable %d nice %d keyring %ld", subreaper, prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
             getpriority(PRIO_PROCESS, 0), syscall(SYS_keyctl, 0, -3, 0));
    note(lines, &count, "%s %s", "process", target);
    qsort(lines, (size_t)count, sizeof *lines, in_order);
    size_t size = 1;
    for (int i = 0; i < count; i++) size += strlen(lines[i]) + 1;
    char *text = calloc(size, 1), *at = text;
    for (int i = 0; i < count; i++) at = stpcpy(stpcpy(at, lines[i]), "\n"), free(lines[i]);
    free(lines);
    return text;
}

__attribute__((visibility("default"))) void host_free(char *text) { free(text); }
