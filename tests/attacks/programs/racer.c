// racer DIR TARGET ROUNDS: DIR/x, a directory, and DIR/y, a link to TARGET, change places so often, then for ever less fast.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXCHANGE 2

int main(int count, char **words) {
  if (count < 4 || chdir(words[1]) || mkdir("x", 0777) || mkdir("x/sub", 0777) || symlink(words[2], "y")) return 1;
  puts("racing");
  fflush(stdout);
  long rounds = atol(words[3]);
  for (long round = 0;; round++) {
    if (syscall(SYS_renameat2, AT_FDCWD, "x", AT_FDCWD, "y", EXCHANGE)) return 2;
    if (round > rounds) usleep(1000);
  }
}
