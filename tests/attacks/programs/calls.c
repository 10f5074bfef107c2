// Tries system calls with real arguments, each in a child of its own, by the interface that the first argument names
// (x86_64, i386, x32), and prints a line `name result` for each: `ok` or the error's number.
#define _GNU_SOURCE
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Everything that a call points to lies here, where 32 bits reach.
static char *const room = (char *)0x10000000;
enum { AT_TEXT = 0, AT_PATH = 64, AT_FAMILY_ALG = 128, AT_FAMILY_VSOCK = 160, AT_FAMILY_INET = 192, AT_ZEROS = 1024, AT_HANDLE = 2048, AT_IOV = 3000 };
#define IN(at) ((unsigned long)0x10000000 + (at))

struct call {
  const char *name;
  long wide, narrow; // The numbers on x86_64 and i386; -1: it has none.
  unsigned long a[6];
  int clones; // Makes a child, which ends at once.
  int frees;  // First tries a user namespace with mounts of its own, as an attacker would.
};

#define HIGH (1UL << 32)
static const struct call calls[] = {
    {"socket-alg", 41, 359, {38, 5, 0}},
    {"socket-alg-high", 41, 359, {38 | HIGH, 5, 0}},
    {"socket-alg-higher", 41, 359, {38 | HIGH << 31, 5, 0}},
    {"socket-vsock", 41, 359, {40, 1, 0}},
    {"socket-vsock-high", 41, 359, {40 | HIGH, 1, 0}},
    {"socketpair-alg", 53, 360, {38, 5, 0, IN(AT_ZEROS)}},
    {"socketpair-vsock-high", 53, 360, {40 | HIGH, 1, 0, IN(AT_ZEROS)}},
    {"socketcall-alg", -1, 102, {1, IN(AT_FAMILY_ALG)}},
    {"socketcall-vsock", -1, 102, {1, IN(AT_FAMILY_VSOCK)}},
    {"socketcall-inet", -1, 102, {1, IN(AT_FAMILY_INET)}},
    {"socketcall-pair", -1, 102, {8, IN(AT_FAMILY_VSOCK)}},
    {"socket-inet", 41, 359, {2, 1, 0}},
    {"socket-inet6-high", 41, 359, {10 | HIGH, 1, 0}},
    {"socket-unix", 41, 359, {1, 1, 0}},
    {"socket-route", 41, 359, {16, 3, 0}},
    {"socket-packet", 41, 359, {17, 3, 0}},
    {"socket-key", 41, 359, {15, 3, 2}},
    {"socket-raw", 41, 359, {2, 3, 1}},
    {"personality-read", 135, 136, {0xffffffff}},
    {"personality-read-high", 135, 136, {0xffffffffffffffff}},
    {"personality-bad", 135, 136, {0x0400000}},
    {"personality-bad-high", 135, 136, {0x0400000 | HIGH}},
    {"unshare-user", 272, 310, {CLONE_NEWUSER}},
    {"unshare-user-high", 272, 310, {CLONE_NEWUSER | HIGH}},
    {"unshare-mounts", 272, 310, {CLONE_NEWNS}, 0, 1},
    {"clone", 56, 120, {SIGCHLD}, 1},
    {"clone-user", 56, 120, {CLONE_NEWUSER | SIGCHLD}, 1},
    {"clone-user-high", 56, 120, {CLONE_NEWUSER | SIGCHLD | HIGH}, 1},
    {"clone3", 435, 435, {IN(AT_ZEROS), 64}, 1},
    {"setns", 308, 346, {0, 0}},
    {"mount", 165, 21, {IN(AT_TEXT), IN(AT_PATH), IN(AT_TEXT), 0, 0}, 0, 1},
    {"umount2", 166, 52, {IN(AT_PATH), 2}, 0, 1},
    {"pivot_root", 155, 217, {IN(AT_PATH), IN(AT_PATH)}, 0, 1},
    {"fsopen", 430, 430, {IN(AT_TEXT), 0}, 0, 1},
    {"fsconfig", 431, 431, {0, 6, 0, 0, 0}, 0, 1},
    {"fsmount", 432, 432, {0, 0, 0}, 0, 1},
    {"fspick", 433, 433, {-100, IN(AT_PATH), 0}, 0, 1},
    {"open_tree", 428, 428, {-100, IN(AT_PATH), 1}, 0, 1},
    {"move_mount", 429, 429, {-100, IN(AT_PATH), -100, IN(AT_PATH), 0}, 0, 1},
    {"mount_setattr", 442, 442, {-100, IN(AT_PATH), 0, IN(AT_ZEROS), 32}, 0, 1},
    {"add_key", 248, 286, {IN(AT_TEXT + 16), IN(AT_TEXT), IN(AT_TEXT), 4, -2}},
    {"request_key", 249, 287, {IN(AT_TEXT + 16), IN(AT_TEXT), 0, -2}},
    {"keyctl", 250, 288, {0, -3, 1}},
    {"io_uring_setup", 425, 425, {8, IN(AT_ZEROS)}},
    {"io_uring_enter", 426, 426, {0, 0, 0, 0, 0, 0}},
    {"io_uring_register", 427, 427, {0, 0, 0, 0}},
    {"userfaultfd", 323, 374, {1}},
    {"bpf", 321, 357, {0, IN(AT_ZEROS), 72}},
    {"perf_event_open", 298, 336, {IN(AT_ZEROS), 0, -1, -1, 0}},
    {"kcmp", 312, 349, {1, 1, 1, 0, 0}},
    {"process_vm_readv", 310, 347, {0, IN(AT_IOV), 0, IN(AT_IOV), 0, 0}},
    {"process_vm_writev", 311, 348, {0, IN(AT_IOV), 0, IN(AT_IOV), 0, 0}},
    {"ptrace", 101, 26, {0, 0, 0, 0}},
    {"kexec_load", 246, 283, {0, 1, IN(AT_ZEROS), 0}},
    {"kexec_file_load", 320, -1, {0, 0, 1, IN(AT_TEXT), 0}},
    {"init_module", 175, 128, {IN(AT_ZEROS), 16, IN(AT_ZEROS)}},
    {"finit_module", 313, 350, {0, IN(AT_ZEROS), 0}},
    {"delete_module", 176, 129, {IN(AT_TEXT), 2048}},
    {"vmsplice", 278, 316, {0, IN(AT_IOV), 0, 0}},
    {"name_to_handle_at", 303, 341, {-100, IN(AT_PATH), IN(AT_HANDLE), IN(AT_ZEROS), 0}},
    {"open_by_handle_at", 304, 342, {0, IN(AT_HANDLE), 0}},
    {"lookup_dcookie", 212, 253, {0, IN(AT_ZEROS), 64}},
    {"modify_ldt", 154, 123, {0, IN(AT_ZEROS), 64}},
    {"swapon", 167, 87, {IN(AT_PATH), 0}},
    {"swapoff", 168, 115, {IN(AT_PATH)}},
    {"acct", 163, 51, {IN(AT_PATH)}},
    {"quotactl", 179, 131, {0, IN(AT_PATH), 0, 0}},
    {"reboot", 169, 88, {0, 0, 0, 0}},
    {"iopl", 172, 110, {3}},
    {"ioperm", 173, 101, {0x378, 1, 1}},
    {"settimeofday", 164, 79, {IN(AT_ZEROS + 512), IN(AT_ZEROS)}},
    {"syslog", 103, 103, {3, IN(AT_ZEROS), 16}},
    {"vhangup", 153, 111, {0}},
    {"chroot", 161, 61, {IN(AT_PATH)}},
    {"mbind", 237, 274, {0, 0, 0, 0, 0, 0}},
    {"move_pages", 279, 317, {0, 0, 0, 0, 0, 0}},
    {"uselib", 134, 86, {IN(AT_PATH)}},
    {"vm86", -1, 166, {0, 0}},
    {"fanotify_init", 300, 338, {0, 0}},
    {"sethostname", 170, 74, {IN(AT_TEXT), 4}},
    {"memfd_create", 319, 356, {IN(AT_TEXT), 0}},
    {"getpid", 39, 20, {0}},
};

static long wide(long number, const unsigned long *a) {
  long result;
  register unsigned long r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return result;
}

// The sixth argument is 0: no call here needs more.
static long narrow(long number, const unsigned long *a) {
  long result;
  __asm__ volatile("push %%rbp\n xor %%ebp, %%ebp\n int $0x80\n pop %%rbp"
                   : "=a"(result)
                   : "a"(number), "b"(a[0]), "c"(a[1]), "d"(a[2]), "S"(a[3]), "D"(a[4])
                   : "r8", "r9", "r10", "r11", "memory");
  return (int)result;
}

static void attempt(const struct call *call, const char *how, int report) {
  if (call->frees) { // With a filter that lets this through, the next call has every right in there.
    long none[6] = {CLONE_NEWUSER | CLONE_NEWNS};
    wide(272, (unsigned long *)none);
  }
  long result = how[0] == 'i' ? narrow(call->narrow, call->a) : wide(how[1] == '3' ? call->wide | 0x40000000 : call->wide, call->a);
  if (call->clones && result == 0) _exit(0);
  if (write(report, &result, sizeof result) != sizeof result) _exit(1);
  _exit(0);
}

int main(int count, char **words) {
  const char *how = count > 1 ? words[1] : "x86_64";
  if (mmap(room, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != room) return 1;
  memcpy(room + AT_TEXT, "tmpfs", 6);
  memcpy(room + AT_TEXT + 16, "user", 5);
  memcpy(room + AT_PATH, "/tmp", 5);
  memcpy(room + AT_FAMILY_ALG, (unsigned[]){38, 5, 0, 0x10000400}, 16);
  memcpy(room + AT_FAMILY_VSOCK, (unsigned[]){40, 1, 0, 0x10000400}, 16);
  memcpy(room + AT_FAMILY_INET, (unsigned[]){2, 1, 0, 0x10000400}, 16);
  memcpy(room + AT_HANDLE, (unsigned[]){128, 0}, 8);
  for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
    int ends[2];
    long result = -1000;
    if ((how[0] == 'i' ? calls[i].narrow : calls[i].wide) < 0) continue;
    if (pipe(ends)) return 1;
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) attempt(&calls[i], how, ends[1]);
    close(ends[1]);
    if (read(ends[0], &result, sizeof result) != sizeof result) result = -1000;
    close(ends[0]);
    waitpid(child, 0, 0);
    if (result >= 0) printf("%s ok\n", calls[i].name);
    else printf("%s %ld\n", calls[i].name, -result);
  }
  return 0;
}
