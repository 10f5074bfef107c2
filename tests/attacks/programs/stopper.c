// Stops each process that comes into the PID namespace, as soon as it is there. Says `ready PLACE`, the place (device:inode) of
// its own root directory, and for each process `stopped PID opened PLACE` or `stopped PID refused ERROR`, as opening the
// other's root directory went. Goes on with the next one when the last runs again or is gone.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// The letter of the state; 0: it is gone.
static char state_of(int pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  int got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return 0;
  text[got] = 0;
  char *end = strrchr(text, ')');
  return end && end[1] ? end[2] : 0;
}

// The newest pid: that of a process of one's own.
static int newest(void) {
  int pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, 0, 0);
  return pid;
}

// Says the place of a directory, and closes it.
static void say_place(int directory) {
  struct stat facts;
  if (fstat(directory, &facts) < 0) exit(1);
  printf("%llu:%llu\n", (unsigned long long)facts.st_dev, (unsigned long long)facts.st_ino);
  close(directory);
}

int main(int count, char **words) {
  int left = count > 1 ? atoi(words[1]) : 1;
  int last = newest();
  setvbuf(stdout, 0, _IOLBF, 0);
  printf("ready ");
  say_place(open("/", O_PATH | O_DIRECTORY));
  for (long tries = 1;; tries++) {
    int pid = 0;
    // Some come and go unseen.
    if (tries % 20000 == 0) last = newest();
    for (int next = last + 1; next < last + 4; next++)
      if (kill(next, SIGSTOP) == 0) { pid = next; break; }
    if (!pid) continue;
    last = pid;
    char state;
    while ((state = state_of(pid)) == 'R' || state == 'S' || state == 'D') {}
    if (state != 'T' || left == 0) { kill(pid, SIGCONT); continue; }
    left--;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/root/.", pid);
    int root = open(path, O_PATH | O_DIRECTORY);
    if (root < 0) {
      printf("stopped %d refused %s\n", pid, strerror(errno));
    } else {
      printf("stopped %d opened ", pid);
      say_place(root);
    }
    while (state_of(pid) == 'T') usleep(1000);
  }
}
