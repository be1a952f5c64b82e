/* What the tests run inside a sandbox: `probe WORD ARG...` does one thing and says what it saw. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void put(const char *path, const char *text, int mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) perror(path);
  close(fd);
}

static int files(void) {
  mkdir("sub", 0777);
  put("sub/plain", "plain", 0666);
  put("secret", "secret", 0600);
  put("changed", "changed", 0666);
  chmod("changed", 04751);
  symlink("sub/plain", "link");
  mkfifo("fifo", 0640);
  unlink("removed");
  struct timespec past[2] = {{123456789, 7}, {123456789, 7}};
  put("old", "old", 0666);
  utimensat(AT_FDCWD, "old", past, 0);
  struct sockaddr_un name = {AF_UNIX, "socket"};
  bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, sizeof name);
  mkdir("locked", 0777);
  put("locked/in", "in", 0666);
  chmod("locked/in", 0);
  chmod("locked", 0);
  return 0;
}

/* A grandchild in its own session that ignores polite signals, holds the output open and would write later. */
static void stay_behind(void) {
  int there[2];
  char byte;
  pipe(there);
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      for (int s = 1; s < NSIG; s++) signal(s, SIG_IGN);
      puts("left behind"), fflush(stdout);
      write(there[1], "", 1);
      for (;;) sleep(1);
    }
    _exit(0);
  }
  read(there[0], &byte, 1);
}

static int bomb(int most) {
  int made = 0;
  for (; made < most; made++) {
    pid_t child = fork();
    if (child < 0) break;
    if (child == 0) pause();
  }
  printf("%d\n", made);
  return 0;
}

static int fill(const char *path, long long bytes) {
  static char block[1 << 16];
  memset(block, 'x', sizeof block);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (fd < 0) return printf("%s\n", strerrorname_np(errno)), 1;
  for (long long done = 0; done < bytes; done += sizeof block)
    if (write(fd, block, sizeof block) < 0) {
      printf("%s after %lld\n", strerrorname_np(errno), done);
      return 1;
    }
  return 0;
}

static int standard_input(void) {
  char text[256];
  off_t at = lseek(0, 0, SEEK_CUR);
  printf("seek %s;", at < 0 ? strerrorname_np(errno) : "ok");
  ssize_t n = read(0, text, sizeof text);
  printf("read %s;", n < 0 ? strerrorname_np(errno) : "ok");
  if (n > 0) fwrite(text, 1, n, stdout);
  if (write(0, "x", 1) < 0) printf(";write %s", strerrorname_np(errno));
  return 0;
}

static int about(void) {
  struct rlimit core;
  sigset_t mask;
  int ignored = 0;
  umask(umask(0) == 022 ? 022 : 0777);
  getrlimit(RLIMIT_CORE, &core);
  sigprocmask(SIG_BLOCK, NULL, &mask);
  for (int s = 1; s < 32; s++) {
    struct sigaction act;
    if (!sigaction(s, NULL, &act) && act.sa_handler != SIG_DFL) ignored++;
    if (sigismember(&mask, s)) ignored++;
  }
  printf("umask %03o uid %d gid %d groups %d signals %d core %d cwd %s\n", umask(0), geteuid(), getegid(),
         getgroups(0, NULL), ignored, (int)core.rlim_max, getcwd(NULL, 0));
  for (char **e = environ; *e; e++) puts(*e);
  return 0;
}

int main(int argc, char **argv) {
  const char *word = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
  if (!strcmp(word, "exit")) return atoi(arg);
  if (!strcmp(word, "raise")) return raise(atoi(arg));
  if (!strcmp(word, "sigpipe")) {
    int p[2];
    if (pipe(p)) return 1;
    close(p[0]);
    return write(p[1], "x", 1) < 0 ? 2 : 3;
  }
  if (!strcmp(word, "about")) return about();
  if (!strcmp(word, "files")) return files();
  if (!strcmp(word, "stdin")) return standard_input();
  if (!strcmp(word, "write")) {
    if (write(1, "out\n", 4) < 0) fprintf(stderr, "%s\n", strerrorname_np(errno));
    return 0;
  }
  if (!strcmp(word, "args")) {
    for (int i = 0; i < argc; i++) printf("[%s]", argv[i]);
    return 0;
  }
  if (!strcmp(word, "stay")) {
    stay_behind();
    if (*arg) sleep(atoi(arg));
    return 5;
  }
  if (!strcmp(word, "bomb")) return bomb(atoi(arg));
  if (!strcmp(word, "spin")) {
    for (volatile long i = 0;; i++) continue;
  }
  if (!strcmp(word, "sleep")) return sleep(atoi(arg));
  if (!strcmp(word, "fill")) return fill(arg, atoll(argv[3]));
  if (!strcmp(word, "fillwait")) return fill(arg, atoll(argv[3])), sleep(60);
  if (!strcmp(word, "flood")) {
    static char block[1 << 16];
    for (long i = 0; i < atol(arg); i++)
      if (write(1, block, sizeof block) < 0) return 1;
    return 0;
  }
  if (!strcmp(word, "hog")) { /* shared pages: no limit on a process's own data counts them */
    size_t size = atol(arg) << 20;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | (argc > 3 ? MAP_SHARED : MAP_PRIVATE), -1, 0);
    if (p == MAP_FAILED) return printf("refused\n"), 1;
    for (size_t i = 0; i < size; i += 4096) p[i] = 1;
    if (argc > 3) sleep(atoi(argv[3]));
    printf("had it\n");
    return 0;
  }
  if (!strcmp(word, "sparse")) {
    char name[16];
    for (int i = 0; i < atoi(arg); i++) {
      snprintf(name, sizeof name, "s%d", i);
      int fd = open(name, O_RDWR | O_CREAT, 0666);
      if (ftruncate(fd, 1 << 20)) return 1;
      close(fd);
    }
    return 0;
  }
  if (!strcmp(word, "deep")) {
    for (int i = 0; i < atoi(arg); i++)
      if (mkdir("dddddddddddddddddddddddddddddddddddddddd", 0777) || chdir("dddddddddddddddddddddddddddddddddddddddd"))
        return 1;
    return 0;
  }
  fprintf(stderr, "probe: unknown word %s\n", word);
  return 64;
}
