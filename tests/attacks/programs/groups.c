// Reads a file that a group may not, out of that group: by setgroups(2), then in a user namespace of its own.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void look(const char *how, const char *path) {
  char text[64] = "";
  int fd = open(path, O_RDONLY);
  int got = fd < 0 ? -1 : (int)read(fd, text, sizeof text - 1);
  printf("%s: %s\n", how, got < 0 ? strerror(errno) : text);
}

int main(int count, char **words) {
  if (count < 2) return 1;
  look("as it is", words[1]);
  int dropped = setgroups(0, NULL);
  look(dropped ? "not dropped" : "dropped", words[1]);
  int apart = unshare(CLONE_NEWUSER);
  dropped = setgroups(0, NULL);
  look(apart ? "no namespace" : dropped ? "apart, not dropped" : "apart, dropped", words[1]);
  return 0;
}
