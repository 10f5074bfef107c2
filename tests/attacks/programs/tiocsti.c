// Pushes a byte into the terminal that is the standard input, as if it had been typed there. Says whether it is one, and how that went.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(void) {
  printf("terminal %d ", isatty(0));
  printf("push %s ", ioctl(0, TIOCSTI, "x") ? strerror(errno) : "done");
  printf("own %s\n", ioctl(0, TIOCGSID, &(pid_t){0}) ? "no" : "yes");
  return 0;
}
