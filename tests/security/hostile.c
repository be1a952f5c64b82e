/* A program that tries to get out. `hostile ATTEMPT ARG` prints "got it: ..." or "refused: WHY", and exits 0 or 1.
 * Each attempt is also made where it must succeed (test_hostile.py), so that a refusal means something. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *argument;

static int got(const char *what) {
  printf("got it: %s\n", what);
  return 0;
}

static int refused(const char *what) {
  printf("refused: %s: %s\n", what, strerrorname_np(errno));
  return 1;
}

/* ---- network ---- */

static int connects(void) { /* to a listener of the host's, on its loopback: ARG is the port */
  struct sockaddr_in to = {AF_INET, htons(atoi(argument)), {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  return connect(fd, (struct sockaddr *)&to, sizeof to) ? refused("connect") : got("connected");
}

static int abstract(void) { /* an abstract socket of the host's: ARG is its name */
  struct { sa_family_t family; char name[100]; } to = {AF_UNIX, {0}};
  strcpy(to.name + 1, argument);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return connect(fd, (struct sockaddr *)&to, sizeof(sa_family_t) + 1 + strlen(argument)) ? refused("connect") : got("connected");
}

static int interfaces(void) { /* another interface than loopback */
  struct if_nameindex *all = if_nameindex();
  for (int i = 0; all && all[i].if_index; i++)
    if (strcmp(all[i].if_name, "lo")) return got(all[i].if_name);
  errno = ENODEV;
  return refused("only loopback");
}

static int loopback(void) { /* a server of one's own: allowed */
  struct sockaddr_in at = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof at;
  int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(server, (struct sockaddr *)&at, size) || listen(server, 1)) return refused("listen");
  getsockname(server, (struct sockaddr *)&at, &size);
  return connect(client, (struct sockaddr *)&at, size) ? refused("connect") : got("own loopback");
}

/* ---- other processes ---- */

/* Open /proc/PID/ARG of any process that isn't ours, or follow it into a directory. */
static int others(void) {
  char path[300];
  DIR *proc = opendir("/proc");
  int tried = 0;
  for (struct dirent *d; proc && (d = readdir(proc));) {
    if (d->d_name[0] < '0' || d->d_name[0] > '9' || atoi(d->d_name) == getpid()) continue;
    snprintf(path, sizeof path, "/proc/%s/%s", d->d_name, argument);
    tried++;
    if (open(path, O_RDONLY) >= 0) return got(path);
  }
  snprintf(path, sizeof path, "/proc/1/%s", argument);
  if (getpid() != 1 && open(path, O_RDONLY) >= 0) return got(path);
  return refused(tried ? "none could be opened" : "none seen");
}

static int traces(void) { /* processes by number, and a child of its own */
  for (pid_t pid = 1; pid < 300; pid++)
    if (pid != getpid() && !ptrace(PTRACE_SEIZE, pid, 0, 0)) return got("process");
  pid_t child = fork();
  if (!child) pause(), _exit(0);
  int failed = ptrace(PTRACE_SEIZE, child, 0, 0);
  kill(child, SIGKILL);
  return failed ? refused("ptrace") : got("own child");
}

static int peeks(void) { /* another process's memory, its own child's */
  int p[2];
  static char secret[16];
  pipe(p);
  pid_t child = fork();
  if (!child) strcpy(secret, "secret"), write(p[1], "x", 1), pause(), _exit(0);
  char c, text[16] = "";
  read(p[0], &c, 1);
  struct iovec here = {text, sizeof text}, there = {secret, sizeof text};
  ssize_t n = process_vm_readv(child, &here, 1, &there, 1, 0);
  kill(child, SIGKILL);
  return n < 0 ? refused("process_vm_readv") : got(text);
}

static int signals(void) { /* anyone but itself; with an ARG process 1 too, and in earnest */
  if (*argument && !kill(1, SIGKILL) && !usleep(100000) && kill(1, 0)) return got("process 1 died");
  if (!kill(-1, 0)) return got("somebody could be signalled");
  return refused("kill -1");
}

static int inherits(void) { /* descriptors above 2 */
  for (int fd = 3; fd < 1024; fd++)
    if (fcntl(fd, F_GETFD) >= 0) return printf("got it: descriptor %d\n", fd), 0;
  return refused("no descriptor above 2");
}

/* ARG is the needle written backwards, so that the question is no answer; this is the one place that holds it. */
static char needle[256];
static size_t turn(void) {
  size_t size = strlen(argument);
  for (size_t i = 0; i < size && i < sizeof needle - 1; i++) needle[i] = argument[size - 1 - i];
  return size;
}

static long walked;
static int look(const char *path, const struct stat *s, int kind, struct FTW *at) {
  (void)at;
  walked++;
  if (kind != FTW_F || !S_ISREG(s->st_mode) || s->st_size < (off_t)strlen(needle) || !strncmp(path, "/proc", 5)) return 0;
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  char *data = mmap(NULL, s->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (data == MAP_FAILED) return 0;
  int found = memmem(data, s->st_size, needle, strlen(needle)) != NULL;
  munmap(data, s->st_size);
  if (found) printf("got it: %s\n", path);
  return found;
}

static int finds(void) { /* in any file */
  turn();
  if (nftw("/", look, 64, FTW_PHYS) == 1) return 0;
  errno = ENOENT;
  printf("%ld entries; ", walked);
  return refused("not in any file");
}

static int remembers(void) { /* in its own memory (what the kernel handed over) or anybody's that it can open */
  char path[300], line[600];
  static char block[1 << 16];
  size_t size = turn();
  long long total = 0;
  DIR *proc = opendir("/proc");
  for (struct dirent *d; proc && (d = readdir(proc));) {
    if (d->d_name[0] < '0' || d->d_name[0] > '9') continue;
    snprintf(path, sizeof path, "/proc/%s/maps", d->d_name);
    FILE *maps = fopen(path, "r");
    snprintf(path, sizeof path, "/proc/%s/mem", d->d_name);
    int mem = open(path, O_RDONLY), own = atoi(d->d_name) == getpid();
    while (maps && mem >= 0 && fgets(line, sizeof line, maps)) {
      unsigned long from, to;
      sscanf(line, "%lx-%lx", &from, &to);
      if (strstr(line, "[vvar") || (own && (unsigned long)block >= from && (unsigned long)block < to)) continue;
      for (unsigned long at = from; at < to; at += sizeof block / 2) {
        ssize_t n = pread(mem, block, to - at < sizeof block ? to - at : sizeof block, at);
        total += n > 0 ? n : 0;
        for (char *hit = block; n > 0 && (hit = memmem(hit, block + n - hit, needle, size)); hit++) {
          unsigned long where = at + (hit - block);
          if (own && where == (unsigned long)needle) continue;
          return printf("got it: %s at %lx\n", path, where), 0;
        }
      }
    }
    if (maps) fclose(maps);
    close(mem);
  }
  errno = ENOENT;
  printf("%lld bytes; ", total);
  return refused("in no memory");
}

/* ---- running something else ---- */

/* mov eax, 42; ret */
static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};

static int calls(void *at) { return ((int (*)(void))at)() == 42 ? got("ran code") : refused("wrong code"); }

static int anonymous(void) {
  void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? refused("mmap") : calls(memcpy(at, code, sizeof code));
}

static int late(void) {
  void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(at, code, sizeof code);
  return mprotect(at, 4096, PROT_READ | PROT_EXEC) ? refused("mprotect") : calls(at);
}

static int late_by_key(void) {
  void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(at, code, sizeof code);
  return syscall(SYS_pkey_mprotect, at, 4096, PROT_READ | PROT_EXEC, -1) ? refused("pkey_mprotect") : calls(at);
}

static int implied(void) {
  if (personality(READ_IMPLIES_EXEC) < 0) return refused("personality");
  void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return calls(memcpy(at, code, sizeof code));
}

static int shared(void) {
  int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0700);
  void *at = id < 0 ? (void *)-1 : shmat(id, NULL, SHM_EXEC);
  if (id >= 0) shmctl(id, IPC_RMID, NULL);
  return at == (void *)-1 ? refused("shmat") : calls(memcpy(at, code, sizeof code));
}

/* /proc/self/mem ignores page protection: it would turn any mapped code into code of one's own. */
__attribute__((aligned(4096), noinline)) static int victim(void) { return 7; }
static int patches(void) {
  int fd = open("/proc/self/mem", O_RDWR);
  if (fd < 0 || pwrite(fd, code, sizeof code, (off_t)victim) != sizeof code) return refused("/proc/self/mem");
  int (*volatile call)(void) = victim;
  return call() == 42 ? got("ran patched code") : refused("not patched");
}

static int patches_by_call(void) {
  struct iovec here = {(void *)code, sizeof code}, there = {(void *)victim, sizeof code};
  long done = process_vm_writev(getpid(), &here, 1, &there, 1, 0);
  return done < 0 && errno != EFAULT ? refused("process_vm_writev") : got("the call"); /* EFAULT: pages stay protected */
}

static int other_numbers(void) { /* the calls of 32-bit programs, whose numbers mean other things */
#ifdef __x86_64__
  long pid;
  __asm__ volatile("int $0x80" : "=a"(pid) : "a"(20) : "memory");
  return pid == getpid() ? got("getpid") : refused("int 0x80");
#else
  return refused("no other calls");
#endif
}

static int memory_file(void) {
  return syscall(SYS_memfd_create, "x", 0) < 0 ? refused("memfd_create") : got("memfd");
}

/* The file /product/bin/hostile copied to ARG and run from there. */
static void copy_self(int out) {
  static char block[1 << 16];
  int in = open("/proc/self/exe", O_RDONLY);
  for (ssize_t n; (n = read(in, block, sizeof block)) > 0;) write(out, block, n);
  fchmod(out, 0755);
}

static int runs_copy(void) {
  int fd = open(argument, O_RDWR | O_CREAT | O_TRUNC, 0755);
  if (fd < 0) return refused("write");
  copy_self(fd);
  close(fd);
  execl(argument, "hostile", "ran", "copy", NULL);
  return refused("exec");
}

static int maps_copy(void) {
  int fd = open(argument, O_RDWR | O_CREAT | O_TRUNC, 0755);
  if (fd < 0 || write(fd, code, sizeof code) != sizeof code) return refused("write");
  void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  return at == MAP_FAILED ? refused("mmap") : calls(at);
}

static int runs_by_loader(void) { /* ARG: the loader, a colon, where to copy itself */
  char *loader = strdup(argument), *copy = strchr(loader, ':');
  *copy++ = 0;
  int fd = open(copy, O_RDWR | O_CREAT | O_TRUNC, 0755);
  if (fd < 0) return refused("write");
  copy_self(fd);
  close(fd);
  execl(loader, "loader", copy, "ran", "by the loader", NULL);
  return refused("exec");
}

static int runs_memory(void) {
  int fd = syscall(SYS_memfd_create, "x", 0);
  if (fd < 0) return refused("memfd_create");
  copy_self(fd);
  char *argv[] = {"hostile", "ran", "memory", NULL};
  syscall(SYS_execveat, fd, "", argv, argv + 3, AT_EMPTY_PATH);
  return refused("execveat");
}

static int runs_empty_path(void) {
  char *argv[] = {"hostile", "ran", "empty path", NULL};
  syscall(SYS_execveat, open("/proc/self/exe", O_RDONLY), "", argv, argv + 3, AT_EMPTY_PATH);
  return refused("execveat");
}

static int runs_other(void) { /* a shell, an interpreter, a compiler: ARG is a list of paths */
  char *list = strdup(argument);
  for (char *path = strtok(list, ":"); path; path = strtok(NULL, ":"))
    if (!access(path, X_OK)) return got(path);
  return refused("nothing to run");
}

static int rings(void) {
  struct io_uring_params p;
  memset(&p, 0, sizeof p);
  return syscall(SYS_io_uring_setup, 1, &p) < 0 ? refused("io_uring_setup") : got("a ring");
}

static int floods(void) { /* ARG calls that are done only to be written down */
  for (int i = atoi(argument); i; i--) open("/nowhere", O_RDONLY);
  return got("asked");
}

/* ---- more rights ---- */

static int reads(void) { return open(argument, O_RDONLY) < 0 ? refused(argument) : got(argument); }
static int mounts(void) { return mount("tmpfs", argument, "tmpfs", 0, NULL) ? refused("mount") : got("mounted"); }
static int unshares(void) { return unshare(CLONE_NEWUSER) ? refused("unshare") : got("a user namespace"); }
static int clones(void) {
  pid_t child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
  if (!child) _exit(0);
  return child < 0 ? refused("clone") : got("a user namespace");
}
static int clones_new(void) {
  unsigned long args[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0};
  pid_t child = syscall(SYS_clone3, args, sizeof args);
  if (!child) _exit(0);
  return child < 0 ? refused("clone3") : got("a user namespace");
}
static int keys(void) {
  return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 1) < 0 ? refused("keyctl") : got("a keyring");
}
static int roots(void) { return setuid(0) ? refused("setuid") : got("uid 0"); }
static int ran(void) { return got(argument); }

static const struct { const char *name; int (*try)(void); } attempts[] = {
    {"connects", connects}, {"abstract", abstract}, {"interfaces", interfaces}, {"loopback", loopback},
    {"others", others}, {"traces", traces}, {"peeks", peeks}, {"signals", signals}, {"inherits", inherits},
    {"finds", finds}, {"remembers", remembers}, {"anonymous", anonymous}, {"late", late},
    {"late_by_key", late_by_key}, {"implied", implied}, {"shared", shared}, {"patches", patches},
    {"memory_file", memory_file}, {"runs_copy", runs_copy}, {"maps_copy", maps_copy}, {"runs_memory", runs_memory},
    {"runs_empty_path", runs_empty_path}, {"runs_other", runs_other}, {"patches_by_call", patches_by_call}, {"other_numbers", other_numbers}, {"runs_by_loader", runs_by_loader},
    {"rings", rings}, {"floods", floods}, {"reads", reads},
    {"mounts", mounts}, {"unshares", unshares}, {"clones", clones}, {"clones_new", clones_new}, {"keys", keys},
    {"roots", roots}, {"ran", ran},
};

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  argument = argc > 2 ? argv[2] : "";
  for (size_t i = 0; argc > 1 && i < sizeof attempts / sizeof *attempts; i++)
    if (!strcmp(argv[1], attempts[i].name)) return attempts[i].try();
  fprintf(stderr, "hostile: unknown attempt\n");
  return 64;
}
