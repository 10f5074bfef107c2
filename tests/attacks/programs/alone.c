/* alone PROGRAM ARGUMENT...: executes the program, which from then on can execute nothing, enter no root and join no
   namespace of a process: such calls are EPERM to it and to its children. The first execution is told from others by the
   address of its path. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdint.h>
#include <sys/mman.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMBER offsetof(struct seccomp_data, nr)
#define LOW offsetof(struct seccomp_data, args[0])
#define HIGH (LOW + 4)

int main(int count, char **words)
{
	(void)count;
	/* Where nothing else ever lies. */
	char *path = mmap((void *)0x7a5a00000000, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (path == MAP_FAILED || strlen(words[1]) > 8000)
		return 125;
	path += 0x5a;
	strcpy(path, words[1]);
	uint32_t low = (uint32_t)(uintptr_t)path, high = (uint32_t)((uintptr_t)path >> 32);
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 7, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_chroot, 6, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOW),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, HIGH),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 124;
	syscall(SYS_execve, path, words + 1, environ);
	perror(path);
	return 127;
}
