// Prints the seccomp filter that the process of a number has, as the kernel has it: `code yes no value` a line.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int main(int count, char **words) {
  static struct sock_filter filter[8192];
  int pid = count > 1 ? atoi(words[1]) : 0;
  if (ptrace(PTRACE_ATTACH, pid, 0, 0)) {
    perror("attach");
    return 1;
  }
  waitpid(pid, 0, __WALL);
  long length = ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, pid, (void *)0, filter);
  if (length < 0) perror("no filter");
  for (long i = 0; i < length; i++) printf("%d %d %d %u\n", filter[i].code, filter[i].jt, filter[i].jf, filter[i].k);
  ptrace(PTRACE_DETACH, pid, 0, 0);
  return length < 0;
}
