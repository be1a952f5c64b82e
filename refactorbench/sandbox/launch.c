/* Starts what a sandbox runs, in two halves around bubblewrap.
 *
 *   launch enter PARENT [-u] [-c CGROUP_PROCS]... -- PROGRAM ARG...
 *       on the host: joins the cgroups and starts PROGRAM (bwrap, strace); with -u in a user namespace that maps every
 *       id to itself, so that all that follows holds capabilities over the sandbox's own namespaces only. Stays as the
 *       guard of all that comes of it: when PROGRAM has ended, when the thread that started the guard is gone (at once
 *       where process PARENT isn't its parent any more), or on SIGTERM, whatever is left is killed. Ends as PROGRAM did.
 *   launch run SELF STATUS_FD UID CPU_S FILE_BYTES PROCESSES DATA_BYTES -- PROGRAM ARG...
 *       inside, as process 1 of the namespace: hides its own file, starts PROGRAM without privileges and within limits,
 *       reaps, and writes PROGRAM's exact end as "exit N", "signal N" or "launch ERRNO" to STATUS_FD. A limit of 0 is
 *       none. UID 0 keeps the present user; this process can still not be opened by PROGRAM, as it is not dumpable.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what) {
  dprintf(2, "launch: %s: %s\n", what, strerror(errno));
  _exit(126);
}

static void put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) die(path);
  close(fd);
}

/* A process cannot map more ids than its own into its namespace, so a helper that stays outside does it. */
static void identity_namespace(void) {
  int go[2];
  char name[64], byte = 0;
  if (pipe2(go, O_CLOEXEC)) die("pipe");
  pid_t self = getpid(), helper = fork();
  if (helper < 0) die("fork");
  if (helper == 0) {
    close(go[1]);
    if (read(go[0], &byte, 1) != 1) _exit(1);
    snprintf(name, sizeof name, "/proc/%d/uid_map", self);
    put(name, "0 0 4294967295\n");
    snprintf(name, sizeof name, "/proc/%d/gid_map", self);
    put(name, "0 0 4294967295\n");
    _exit(0);
  }
  int status;
  if (unshare(CLONE_NEWUSER)) die("user namespace");
  if (write(go[1], &byte, 1) != 1) die("pipe");
  close(go[0]), close(go[1]);
  if (waitpid(helper, &status, 0) != helper || status) die("mapping ids");
}

static void kill_children(void) {
  DIR *all = opendir("/proc");
  if (!all) die("/proc");
  for (struct dirent *one; (one = readdir(all));) {
    char name[300], text[512], *end;
    int fd, parent;
    snprintf(name, sizeof name, "/proc/%s/stat", one->d_name);
    if (*one->d_name < '1' || *one->d_name > '9' || (fd = open(name, O_RDONLY | O_CLOEXEC)) < 0) continue;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = 0;
    if ((end = strrchr(text, ')')) && sscanf(end, ") %*c %d", &parent) == 1 && parent == getpid())
      kill(atoi(one->d_name), SIGKILL);
  }
  closedir(all);
}

/* bwrap's second process can outlive the first if that dies early, so nobody's end alone ends a sandbox. */
static int guard(pid_t program, const sigset_t *set) {
  int status = SIGKILL, got, done = 0;
  struct timespec soon = {0, 20000000}; /* what a dead child leaves becomes ours a moment later */
  for (;;) {
    for (pid_t ended; (ended = waitpid(-1, &got, WNOHANG)) != 0;) {
      if (ended < 0 && errno == ECHILD) return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (ended == program) status = got, done = 1;
    }
    if (done) kill_children();
    int signal = done ? sigtimedwait(set, NULL, &soon) : sigwaitinfo(set, NULL);
    if (signal == SIGTERM) done = 1;
  }
}

static int enter(char **arg) {
  int namespace = 0;
  pid_t parent = *arg ? atoi(*arg++) : 0, self = getpid();
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  signal(SIGCHLD, SIG_DFL), signal(SIGTERM, SIG_DFL); /* ignored ones would be inherited */
  if (sigprocmask(SIG_BLOCK, &set, &old)) die("signals");
  if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) die("parent's death");
  if (getppid() != parent) return 1; /* it died before this could be asked for */
  for (; *arg && strcmp(*arg, "--"); arg++) {
    if (!strcmp(*arg, "-u"))
      namespace = 1;
    else if (!strcmp(*arg, "-c") && arg[1])
      put(*++arg, "0");
    else
      errno = EINVAL, die(*arg);
  }
  if (!*arg || !arg[1]) errno = EINVAL, die("no program");
  pid_t program = fork();
  if (program < 0) die("fork");
  if (program == 0) {
    if (namespace) identity_namespace();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)) die("parent's death"); /* a new namespace clears it */
    if (getppid() != self) _exit(126);
    sigprocmask(SIG_SETMASK, &old, NULL);
    execvp(arg[1], arg + 1);
    die(arg[1]);
  }
  for (int fd = 0; fd < 3; fd++) close(fd); /* pipes end with the program, not with its guard */
  syscall(SYS_close_range, 3U, ~0U, 0);
  return guard(program, &set);
}

static void limit(int what, unsigned long long value, unsigned long long margin) {
  struct rlimit now, want = {value, value + margin};
  if (!value) return;
  if (getrlimit(what, &now)) die("getrlimit");
  if (now.rlim_max != RLIM_INFINITY && want.rlim_max > now.rlim_max) want.rlim_max = now.rlim_max;
  if (want.rlim_cur > want.rlim_max) want.rlim_cur = want.rlim_max;
  if (setrlimit(what, &want)) die("setrlimit");
}

static void drop(uid_t uid) {
  if (uid) {
    if (setgroups(0, NULL) && errno != EPERM) die("setgroups");
    for (int cap = 0; cap <= 63; cap++)
      if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno != EINVAL) die("bounding set");
    if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)) die("setuid");
  }
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (syscall(SYS_capset, &head, none)) die("capset");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) die("no_new_privs");
}

static int run(int argc, char **arg) {
  if (argc < 10 || strcmp(arg[7], "--")) errno = EINVAL, die("arguments");
  const char *self = arg[0];
  int report = atoi(arg[1]), fail[2], status, error = 0;
  char text[64];
  if (umount2(self, MNT_DETACH)) die(self);
  if (pipe2(fail, O_CLOEXEC)) die("pipe");
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    /* descriptors first: nothing of the harness reaches the program */
    if (fail[1] != 3 && dup3(fail[1], 3, O_CLOEXEC) != 3) die("dup");
    if (syscall(SYS_close_range, 4U, ~0U, 0)) die("close_range");
    for (int s = 1; s < NSIG; s++) signal(s, SIG_DFL);
    sigset_t empty;
    sigemptyset(&empty);
    sigprocmask(SIG_SETMASK, &empty, NULL);
    umask(022);
    unsetenv("PWD"); /* bwrap adds it */
    struct rlimit zero = {0, 0};
    setrlimit(RLIMIT_CORE, &zero);
    drop((uid_t)strtoul(arg[2], NULL, 10));
    limit(RLIMIT_CPU, strtoull(arg[3], NULL, 10), 1);
    limit(RLIMIT_FSIZE, strtoull(arg[4], NULL, 10), 0);
    limit(RLIMIT_NPROC, strtoull(arg[5], NULL, 10), 0);
    limit(RLIMIT_DATA, strtoull(arg[6], NULL, 10), 0);
    execvp(arg[8], arg + 8);
    error = errno;
    if (write(3, &error, sizeof error) != sizeof error) _exit(126);
    _exit(127);
  }
  close(fail[1]);
  if (read(fail[0], &error, sizeof error) != sizeof error) error = 0;
  for (pid_t ended; (ended = wait(&status)) != child;)
    if (ended < 0 && errno != EINTR) die("wait");
  if (error)
    snprintf(text, sizeof text, "launch %d\n", error);
  else if (WIFSIGNALED(status))
    snprintf(text, sizeof text, "signal %d\n", WTERMSIG(status));
  else
    snprintf(text, sizeof text, "exit %d\n", WEXITSTATUS(status));
  if (write(report, text, strlen(text)) != (ssize_t)strlen(text)) die("status");
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[1], "enter")) return enter(argv + 2);
  if (argc > 2 && !strcmp(argv[1], "run")) return run(argc - 1, argv + 2);
  dprintf(2, "usage: launch enter|run ...\n");
  return 126;
}
