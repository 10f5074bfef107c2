// A program of i386, without any library: connects to 127.0.0.1:8080 and copies what comes to its output. `client32
// old` uses socketcall alone, like programs older than Linux 4.3; `client32 new` the calls of their own.
static long call(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
  return result;
}

static int say(const char *text, int code) {
  long length = 0;
  while (text[length]) length++;
  call(4, 2, (long)text, length);
  return code;
}

static int run(char **words) {
  struct { unsigned short family, port; unsigned address; char rest[8]; } server = {2, 0x901f, 0x0100007f, {0}};
  char data[64];
  int old = words[1] && words[1][0] == 'o';
  long make[] = {2, 1, 0}, socket = old ? call(102, 1, (long)make, 0) : call(359, 2, 1, 0);
  if (socket < 0) return say(socket == -1 ? "socket: EPERM\n" : "socket: another error\n", 1);
  long meet[] = {socket, (long)&server, 16};
  if ((old ? call(102, 3, (long)meet, 0) : call(362, socket, (long)&server, 16)) < 0) return say("connect\n", 1);
  for (;;) {
    long take[] = {socket, (long)data, sizeof data, 0};
    long length = old ? call(102, 10, (long)take, 0) : call(3, socket, (long)data, sizeof data);
    if (length < 0) return say("receive\n", 1);
    if (length == 0) return 0;
    call(4, 1, (long)data, length);
  }
}

__attribute__((used)) static void begin(long *stack) {
  call(1, run((char **)(stack + 1)), 0, 0);
  __builtin_unreachable();
}

__asm__(".globl _start\n_start: mov %esp, %eax\n push %eax\n call begin\n");
