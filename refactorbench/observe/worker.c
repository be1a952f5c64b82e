/* Observes checks: reads requests on stdin, runs each in fresh namespaces and scratch, answers on stdout.
 *
 *   worker UID WALL_MS CPU_S MEMORY FILE PROCESSES DISK OUTPUT FLAGS          (sizes in bytes; UID 0: stay as we are)
 *
 * It lies outside the root that the program sees (/r, built by bubblewrap) and holds capabilities over its own namespaces
 * only. Per check, process 1 of a new pid namespace mounts scratch (/work, /tmp) and /proc, makes /r the root, drops what
 * lies beneath, starts the program as its child and reports its end; when process 1 has been reaped, the kernel has ended
 * all that the program left. Frames are described in wire.py. What the program does is never a reason for this to fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker_seccomp.h"
#include "worker_wire.h"
#include "worker_tree.h"

enum { ENDED_EXIT, ENDED_SIGNAL, ENDED_LIMIT, ENDED_LAUNCH };
enum { DENY_MEMORY = 1, LIMIT_PROCESSES = 2, SHARED_MEMORY = 4, MARK = 8 };

static struct {
  uid_t uid;
  long long wall_ms, cpu_s, memory, file, processes, disk, output;
  int flags;
} limits;
static char tmp_options[96], disk_text[32];

struct stream {
  uint8_t *data;
  size_t size, room;
  int fd;
};

/* What process 1 of a check reports: the program's end, or why it could not be started. */
struct report {
  int kind, value; /* kind: 'e' errno of exec, 's' wait status, otherwise the name of a step of ours that failed */
  long cpu_ms;
};

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static int mount_scratch(void) {
  int fs = syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
  if (fs < 0) die("fsopen");
  static const char *const fixed[][2] = {{"mode", "0755"}, {"uid", "65534"}, {"gid", "65534"}, {"nr_inodes", INODES}};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, fixed[i][0], fixed[i][1], 0)) die(fixed[i][0]);
  if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", disk_text, 0)) die("size");
  if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0)) die("tmpfs");
  int tree = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (tree < 0) die("fsmount");
  close(fs);
  return tree;
}

/* ---- inside the check: process 1 and the program ---- */

static void fail(int out, int step) {
  struct report r = {step, errno, 0};
  if (write(out, &r, sizeof r) != sizeof r) _exit(1);
  _exit(1);
}

static void bound(int out, int what, long long soft, long long hard) {
  struct rlimit now, want = {soft, hard};
  if (getrlimit(what, &now)) fail(out, 'l');
  if (now.rlim_max != RLIM_INFINITY && want.rlim_max > now.rlim_max) want.rlim_max = now.rlim_max;
  if (want.rlim_cur > want.rlim_max) want.rlim_cur = want.rlim_max;
  if (setrlimit(what, &want)) fail(out, 'l');
}

static void bounds(int out) {
  bound(out, RLIMIT_CORE, 0, 0);
  bound(out, RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1);
  bound(out, RLIMIT_FSIZE, limits.file, limits.file);
  bound(out, RLIMIT_NOFILE, 1024, 1024);
  bound(out, RLIMIT_DATA, limits.memory, limits.memory);
  if (limits.flags & LIMIT_PROCESSES) bound(out, RLIMIT_NPROC, limits.processes, limits.processes);
}

static void drop(int out) {
  if (limits.uid && (setresgid(limits.uid, limits.uid, limits.uid))) fail(out, 'g');
  if (limits.uid && setresuid(limits.uid, limits.uid, limits.uid)) fail(out, 'u');
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  if (syscall(SYS_capset, &head, none)) fail(out, 'c');
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail(out, 'n');
}

static void program(const struct request *check, int in, int out, int err, int report) {
  if (setsid() < 0) fail(report, 'd');
  if (dup2(in < 0 ? err : in, 0) != 0 || dup2(out < 0 ? err : out, 1) != 1 || dup2(err, 2) != 2) fail(report, 'f');
  if (report != 3 && dup3(report, 3, O_CLOEXEC) != 3) _exit(1);
  report = 3;
  if (in < 0) close(0);
  if (out < 0) close(1);
  if (syscall(SYS_close_range, 4U, ~0U, 0)) fail(report, 'f');
  signal(SIGPIPE, SIG_DFL);
  umask(022);
  drop(report);
  bounds(report);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter)) fail(report, 'b');
  execve(check->program, check->argv, check->env);
  fail(report, 'e');
}

static int enter_root(int scratch) {
  if (syscall(SYS_move_mount, scratch, "", AT_FDCWD, "/r/work", MOVE_MOUNT_F_EMPTY_PATH)) return 'w';
  unsigned long plain = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (mount("tmpfs", "/r/tmp", "tmpfs", plain, tmp_options)) return 't';
  /* read-only: writing to /proc/self/mem would make any mapping writable and executable */
  if (mount("proc", "/r/proc", "proc", plain | MS_RDONLY, "hidepid=2")) return 'p';
  if (chdir("/r") || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/work")) return 'r';
  return 0;
}

/* Process 1 of the check: signals don't end it, it can't be opened, and its end is everything's end. */
static void first(const struct request *check, int scratch, int in, int out, int err, int report) {
  struct report r = {0, 0, 0};
  struct rusage used;
  int step = enter_root(scratch), status, devfull = -1;
  if (step) fail(report, step);
  if (check->out == OUT_FULL && (devfull = open("/dev/full", O_WRONLY | O_CLOEXEC)) < 0) fail(report, 'o');
  pid_t child = fork();
  if (child < 0) fail(report, 'k');
  if (child == 0) program(check, in, check->out == OUT_FULL ? devfull : out, err, report);
  close(in), close(out), close(err);
  for (pid_t ended; (ended = wait4(-1, &status, 0, &used)) != child;)
    if (ended < 0 && errno != EINTR) fail(report, 'x');
  r.kind = 's', r.value = status;
  r.cpu_ms = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
  if (write(report, &r, sizeof r) != sizeof r) _exit(1);
  _exit(0);
}

/* ---- outside: feed, collect, clean up ---- */

/* Read once; 0 at the end of the stream, -1 when it passed the limit, 1 otherwise. */
static int collect(struct stream *s) {
  if (s->room - s->size < 65536) {
    s->room = s->room ? s->room * 2 : 131072;
    if (!(s->data = realloc(s->data, s->room))) die("memory");
  }
  ssize_t n = read(s->fd, s->data + s->size, s->room - s->size);
  if (n < 0) return errno == EAGAIN || errno == EINTR ? 1 : 0;
  s->size += n;
  if (s->size <= (size_t)limits.output) return n > 0;
  s->size = limits.output;
  return -1;
}

static void shut(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

/* Until the program has ended or a limit is passed; returns that limit's name or NULL. */
static const char *attend(const struct request *check, int *in, struct stream *out, struct stream *err, int report,
                          struct report *end, int64_t deadline) {
  size_t fed = 0;
  for (;;) {
    if (*in >= 0 && fed == check->stdin_size) shut(in);
    struct pollfd p[] = {
        {report, POLLIN, 0}, {out->fd, POLLIN, 0}, {err->fd, POLLIN, 0}, {*in, POLLOUT, 0}};
    int64_t left = deadline - now_ms();
    if (left <= 0) return "wall";
    if (poll(p, 4, left) < 0 && errno != EINTR) die("poll");
    for (int i = 0; i < 2; i++) {
      struct stream *s = i ? err : out;
      if (s->fd < 0 || !p[1 + i].revents) continue;
      int more = collect(s);
      if (more < 0) return "output";
      if (!more) shut(&s->fd);
    }
    if (*in >= 0 && p[3].revents) {
      ssize_t n = write(*in, check->stdin_data + fed, check->stdin_size - fed);
      if (n > 0) fed += n;
      if (n < 0 && errno != EAGAIN && errno != EINTR) shut(in); /* it doesn't read */
    }
    if (p[0].revents) {
      if (read(report, end, sizeof *end) != sizeof *end) end->kind = 0; /* process 1 was killed: out of memory */
      return NULL;
    }
  }
}

static void drain(struct stream *s) {
  while (s->fd >= 0) {
    int more = collect(s);
    if (more <= 0) shut(&s->fd);
  }
}

static int seekable_stdin(int scratch, const struct request *check) {
  char name[64];
  int fd = openat(scratch, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 || write_all(fd, check->stdin_data, check->stdin_size)) die("stdin file");
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  int ro = open(name, O_RDONLY | O_CLOEXEC);
  if (ro < 0) die("stdin file");
  close(fd);
  return ro;
}

static void pipes(int pair[2]) {
  if (pipe2(pair, O_CLOEXEC)) die("pipe");
}

/* In a traced run this failing call shows which check the lines that follow belong to. */
static void mark(const char *id) {
  char name[300];
  snprintf(name, sizeof name, "/.check/%s", id);
  if (chdir(name) == 0) die(name);
}

static int ended(const struct report *end, const char **limit, int *code) {
  long cpu = limits.cpu_s * 1000;
  if (*limit) return ENDED_LIMIT;
  if (end->kind == 'e') {
    *code = end->value;
    return ENDED_LAUNCH;
  }
  if (end->kind && WIFEXITED(end->value)) {
    *code = WEXITSTATUS(end->value);
    return ENDED_EXIT;
  }
  *code = end->kind ? WTERMSIG(end->value) : SIGKILL; /* process 1 itself was killed: only the kernel can */
  if (*code == SIGXCPU || (*code == SIGKILL && end->cpu_ms >= cpu)) {
    *limit = "cpu", *code = 0;
    return ENDED_LIMIT;
  }
  return ENDED_SIGNAL;
}

static void answer(const struct report *end, const char *limit, int64_t wall, const struct stream *out,
                   const struct stream *err, int scratch, struct timespec start) {
  struct tree t = {NULL, 0, 0, 0, 0, 0};
  int code = 0;
  walk(&t, scratch, start, limits.disk);
  if (t.over && !limit) limit = "disk";
  int how = ended(end, &limit, &code);
  uint64_t total = 9 * 4 + out->size + err->size;
  for (size_t i = 0; i < t.count; i++) total += 28 + t.entry[i].path_size + t.entry[i].target_size + t.entry[i].size;
  char name[8] = "";
  if (limit) strncpy(name, limit, sizeof name - 1);
  uint32_t head[] = {0, how, code, wall, out->size, err->size, t.count};
  send_bytes(&total, 8);
  send_bytes(head, sizeof head);
  send_bytes(name, sizeof name);
  send_bytes(out->data, out->size);
  send_bytes(err->data, err->size);
  for (size_t i = 0; i < t.count; i++) send_entry(&t.entry[i], scratch), free(t.entry[i].path);
  flush();
  free(t.entry);
}

static void observe(const struct request *check) {
  static struct stream out, err;
  struct timespec start;
  struct report end = {0, 0, 0};
  int in[2] = {-1, -1}, o[2] = {-1, -1}, e[2], r[2], scratch = mount_scratch();
  const char *bad = lay_out(scratch, check, limits.uid);
  if (bad) {
    send_error("cannot lay out %s: %s", bad, strerror(errno));
    close(scratch);
    return;
  }
  if (check->in == IN_PIPE) pipes(in);
  if (check->in == IN_FILE) in[0] = seekable_stdin(scratch, check);
  if (check->out == OUT_PIPE) pipes(o);
  pipes(e), pipes(r);
  if (limits.flags & MARK) mark(check->id);
  clock_gettime(CLOCK_REALTIME_COARSE, &start); /* the clock that stamps files */
  int64_t began = now_ms();
  pid_t child = syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | SIGCHLD, NULL, NULL, NULL, NULL);
  if (child < 0) die("clone");
  if (child == 0) {
    shut(&in[1]), shut(&o[0]), shut(&e[0]), shut(&r[0]); /* or the program's stdin would never end */
    first(check, scratch, in[0], o[1], e[1], r[1]);
  }
  shut(&in[0]), shut(&o[1]), shut(&e[1]), shut(&r[1]);
  out.fd = o[0], err.fd = e[0], out.size = err.size = 0;
  int ends[] = {in[1], o[0], e[0]};
  for (int i = 0; i < 3; i++)
    if (ends[i] >= 0 && fcntl(ends[i], F_SETFL, O_NONBLOCK)) die("fcntl");
  const char *limit = attend(check, &in[1], &out, &err, r[0], &end, began + limits.wall_ms);
  if (limit) kill(child, SIGKILL);
  while (waitpid(child, NULL, 0) < 0)
    if (errno != EINTR) die("wait");
  drain(&out), drain(&err);
  shut(&in[1]), shut(&r[0]);
  if (end.kind && end.kind != 'e' && end.kind != 's')
    send_error("step '%c' of starting a check: %s", end.kind, strerror(end.value));
  else
    answer(&end, limit, now_ms() - began, &out, &err, scratch, start);
  close(scratch);
  trim(&out.data, &out.room), trim(&err.data, &err.room);
}

static void configure(char **arg) {
  long long *sizes[] = {&limits.wall_ms, &limits.cpu_s,     &limits.memory, &limits.file,
                        &limits.processes, &limits.disk, &limits.output};
  limits.uid = strtoul(arg[0], NULL, 10);
  for (int i = 0; i < 7; i++) *sizes[i] = strtoll(arg[1 + i], NULL, 10);
  limits.flags = atoi(arg[8]);
  snprintf(disk_text, sizeof disk_text, "%lld", limits.disk);
  snprintf(tmp_options, sizeof tmp_options, "mode=1777,nr_inodes=" INODES ",size=%lld", limits.disk);
}

/* What every program inherits and the worker itself has no use for is given up once, here. */
static void give_up(void) {
  sigset_t none;
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) die("dumpable");
  for (int s = 1; s < NSIG; s++) signal(s, SIG_DFL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_IGN);
  for (int cap = 0; cap < 64; cap++)
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno != EINVAL) die("bounding set");
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)) die("ambient set");
  if (limits.uid && setgroups(0, NULL)) die("groups");
}

int main(int argc, char **argv) {
  static uint8_t *frame;
  static size_t room;
  if (argc != 10) errno = EINVAL, die("arguments");
  configure(argv + 1);
  give_up();
  build_filter(limits.flags & DENY_MEMORY, limits.flags & SHARED_MEMORY);
  if (filter.len == FILTER_MAX || rule_count == RULES_MAX) errno = E2BIG, die("filter");
  for (uint32_t size; !read_all(0, &size, sizeof size);) {
    struct request check;
    if (size > REQUEST_MAX) errno = EMSGSIZE, die("request");
    if (room < size) {
      free(frame);
      room = size < 65536 ? 65536 : size;
      if (!(frame = malloc(room))) die("memory");
    }
    if (read_all(0, frame, size)) die("request");
    at = frame, end_of_frame = frame + size;
    parse(&check);
    observe(&check);
    free(check.argv), free(check.env), free(check.file);
    trim(&frame, &room);
  }
  return 0;
}
