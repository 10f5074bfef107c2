/* starter PROGRAM ARGUMENT...: the first process of a container that is created and not started. It waits for SIGRTMAX and
 * becomes PROGRAM then. Static, and with nothing of its own left behind: the launch has done everything before it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  sigset_t start, both, before;
  sigemptyset(&start);
  sigaddset(&start, SIGRTMAX);
  /* The second one shows from outside that the first is waited for: while it is, it does not count as blocked. */
  both = start;
  sigaddset(&both, SIGRTMAX - 1);
  sigprocmask(SIG_BLOCK, &both, &before);
  while (sigwaitinfo(&start, NULL) < 0 && errno == EINTR) {}
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (argc < 2) return 0;
  execvp(argv[1], argv + 1);
  int failed = errno;
  fprintf(stderr, "exec %s: %s\n", argv[1], strerror(failed));
  return failed == ENOENT ? 127 : 126;
}
