/* The least that a check costs: what any runner must do for each, in a loop, without requests, answers, limits or filter.
 *
 *   floor N UID PROGRAM ARG...     prints the seconds that N runs took
 *
 * Per run: a tmpfs for scratch, new pid, mount and ipc namespaces with /work, /tmp and /proc, the root switched to /r,
 * another uid, PROGRAM between pipes, its output and its scratch files read, everything gone. Started by replay_floor.py.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *const env[] = {"PATH=/product/bin", "LC_ALL=C", "TZ=UTC", "HOME=/work", NULL};

static void die(const char *what) {
  perror(what);
  _exit(70);
}

static int scratch(void) {
  int fs = syscall(SYS_fsopen, "tmpfs", 1);
  if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "uid", "65534", 0) ||
      syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
    die("tmpfs");
  int tree = syscall(SYS_fsmount, fs, 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (tree < 0) die("fsmount");
  close(fs);
  return tree;
}

static void first(int tree, int in, int out, int err, uid_t uid, char **argv) {
  unsigned long plain = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  int status;
  if (syscall(SYS_move_mount, tree, "", AT_FDCWD, "/r/work", MOVE_MOUNT_F_EMPTY_PATH) ||
      mount("tmpfs", "/r/tmp", "tmpfs", plain, NULL) || mount("proc", "/r/proc", "proc", plain, NULL) || chdir("/r") ||
      syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/work"))
    die("root");
  pid_t child = fork();
  if (child == 0) {
    dup2(in, 0), dup2(out, 1), dup2(err, 2);
    syscall(SYS_close_range, 3U, ~0U, 0);
    if (uid && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))) _exit(71);
    execve(argv[0], argv, env);
    _exit(72);
  }
  close(in), close(out), close(err);
  if (waitpid(child, &status, 0) != child) _exit(73);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 74);
}

static size_t drain(int out, int err) {
  static char piece[65536];
  size_t total = 0;
  struct pollfd p[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  while (p[0].fd >= 0 || p[1].fd >= 0) {
    if (poll(p, 2, -1) < 0) die("poll");
    for (int i = 0; i < 2; i++) {
      if (p[i].fd < 0 || !p[i].revents) continue;
      ssize_t n = read(p[i].fd, piece, sizeof piece);
      if (n > 0)
        total += n;
      else
        p[i].fd = -1;
    }
  }
  return total;
}

static size_t collect(int tree) {
  static char piece[65536];
  size_t total = 0;
  struct stat s;
  DIR *dir = fdopendir(openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (struct dirent *d; dir && (d = readdir(dir));) {
    if (d->d_name[0] == '.' || fstatat(tree, d->d_name, &s, AT_SYMLINK_NOFOLLOW) || !S_ISREG(s.st_mode)) continue;
    int fd = openat(tree, d->d_name, O_RDONLY | O_CLOEXEC);
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;) total += n;
    close(fd);
  }
  closedir(dir);
  return total;
}

int main(int argc, char **argv) {
  if (argc < 4) return 64;
  long runs = atol(argv[1]);
  uid_t uid = atol(argv[2]);
  struct timespec a, b;
  size_t seen = 0;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (long i = 0; i < runs; i++) {
    int in[2], out[2], err[2], status, tree = scratch();
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) die("pipe");
    pid_t child = syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child < 0) die("clone");
    if (child == 0) first(tree, in[0], out[1], err[1], uid, argv + 3);
    close(in[0]), close(in[1]), close(out[1]), close(err[1]);
    seen += drain(out[0], err[0]);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) >= 70) die("a run failed");
    seen += collect(tree);
    close(out[0]), close(err[0]), close(tree);
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  if (!seen) die("nothing was seen");
  printf("%.6f\n", (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) / 1e9);
  return 0;
}
