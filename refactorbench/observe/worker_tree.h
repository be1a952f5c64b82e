/* The scratch tree: laid out before the program starts, walked after everything it started is dead. */
#include <dirent.h>

#define INODES "16384"
#define PATH_ROOM 4000            /* a deeper path is taken as an attack on the disk limit */
#define META_ROOM (48u << 20) /* bytes of paths and targets */
#define SECOND 1000000000LL   /* times travel in nanoseconds */
#define READ_LATER 3600       /* seconds: who mixes up the times of reading and of writing is seen to */
#define NOW INT64_MIN         /* a time of the check's own */

/* Before 1970 too, a time is whole seconds rounded down and what is left of the next one. */
static void times_of(int64_t mtime, struct timespec times[2]) {
  int64_t left = (mtime % SECOND + SECOND) % SECOND, second = (mtime - left) / SECOND;
  times[0] = (struct timespec){second + READ_LATER, 0};
  times[1] = (struct timespec){second, left};
}

/* Write the inputs as the program's user; NULL, or the path that could not be made (errno says why). */
static const char *lay_out(int root, const struct request *r, uid_t uid) {
  const char *bad = NULL;
  if (!r->files) return NULL;
  if (uid) setfsgid(uid), setfsuid(uid);
  umask(0);
  for (uint32_t i = 0; i < r->files && !bad; i++) {
    const struct input *f = &r->file[i];
    struct timespec times[2];
    times_of(f->mtime, times);
    int fd = -1, failed = 0;
    switch (f->kind) {
      case KIND_DIR: failed = mkdirat(root, f->path, 0755); break; /* mode and time last: the rest goes into it */
      case KIND_LINK: failed = symlinkat(f->target, root, f->path); break;
      case KIND_FIFO: failed = mkfifoat(root, f->path, 0600) || fchmodat(root, f->path, f->mode, 0); break;
      case KIND_HARDLINK: failed = linkat(root, f->target, root, f->path, 0); break;
      default:
        fd = openat(root, f->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        failed = fd < 0 || write_all(fd, f->data, f->size) || fchmod(fd, f->mode) || futimens(fd, times);
        if (fd >= 0) close(fd);
    }
    if (!failed && (f->kind == KIND_LINK || f->kind == KIND_FIFO))
      failed = utimensat(root, f->path, times, AT_SYMLINK_NOFOLLOW);
    if (failed) bad = f->path;
  }
  for (uint32_t i = r->files; i-- > 0 && !bad;) {
    const struct input *f = &r->file[i];
    struct timespec times[2];
    times_of(f->mtime, times);
    if (f->kind != KIND_DIR) continue;
    if (utimensat(root, f->path, times, AT_SYMLINK_NOFOLLOW) || fchmodat(root, f->path, f->mode, 0)) bad = f->path;
  }
  if (uid) setfsuid(0), setfsgid(0);
  return bad;
}

struct entry {
  char *path, *target; /* one allocation */
  uint32_t path_size, target_size, size;
  uint16_t mode;
  uint8_t kind;
  int64_t mtime;
};

struct tree {
  struct entry *entry;
  size_t count, room, meta;
  uint64_t bytes;
  int over; /* more than the disk limit or than anything honest */
};

static int before(struct timespec a, struct timespec b) {
  return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

static void add(struct tree *t, int root, const char *folder, const char *name, struct timespec start) {
  char path[PATH_ROOM + 512], target[4096];
  struct stat s;
  int size = snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
  if (size >= PATH_ROOM || t->meta > META_ROOM) {
    t->over = 1;
    return;
  }
  if (fstatat(root, path, &s, AT_SYMLINK_NOFOLLOW)) die("stat in scratch");
  ssize_t linked = S_ISLNK(s.st_mode) ? readlinkat(root, path, target, sizeof target) : 0;
  if (linked < 0) die("readlink in scratch");
  if (t->count == t->room) {
    t->room = t->room ? t->room * 2 : 64;
    if (!(t->entry = realloc(t->entry, t->room * sizeof *t->entry))) die("memory");
  }
  struct entry *e = &t->entry[t->count++];
  memset(e, 0, sizeof *e);
  if (!(e->path = malloc(size + 1 + linked))) die("memory");
  memcpy(e->path, path, size + 1);
  e->target = e->path + size + 1;
  memcpy(e->target, target, linked);
  e->path_size = size, e->target_size = linked, e->mode = s.st_mode & 07777;
  struct timespec end; /* what lies behind it was set, not made now; stamps can be finer than the coarse clock */
  clock_gettime(CLOCK_REALTIME, &end);
  int now = !before(s.st_mtim, start) && !before(end, s.st_mtim);
  e->mtime = now ? NOW : s.st_mtim.tv_sec * SECOND + s.st_mtim.tv_nsec;
  e->kind = S_ISREG(s.st_mode)    ? KIND_FILE
            : S_ISDIR(s.st_mode)  ? KIND_DIR
            : S_ISLNK(s.st_mode)  ? KIND_LINK
            : S_ISFIFO(s.st_mode) ? KIND_FIFO
                                  : KIND_OTHER;
  if (e->kind == KIND_FILE) t->bytes += s.st_size, e->size = s.st_size;
  t->meta += size + linked + sizeof *e;
}

static void scan(struct tree *t, int root, const char *folder, struct timespec start) {
  int fd = openat(root, *folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) die("reading scratch");
  for (struct dirent *d; !t->over && (d = readdir(dir));)
    if (strcmp(d->d_name, ".") && strcmp(d->d_name, "..")) add(t, root, folder, d->d_name, start);
  closedir(dir);
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

/* All of `root`, sorted; the list itself is the queue of folders still to be read. */
static void walk(struct tree *t, int root, struct timespec start, uint64_t most) {
  scan(t, root, "", start);
  for (size_t i = 0; i < t->count && !t->over; i++)
    if (t->entry[i].kind == KIND_DIR) scan(t, root, t->entry[i].path, start);
  if (t->bytes > most) t->over = 1;
  if (t->over)
    for (size_t i = 0; i < t->count; i++) t->entry[i].size = 0;
  if (t->count) qsort(t->entry, t->count, sizeof *t->entry, by_path);
}

static void send_entry(const struct entry *e, int root) {
  static uint8_t piece[1 << 16];
  uint32_t head[] = {e->kind, e->mode, e->path_size, e->target_size, e->size};
  send_bytes(head, sizeof head);
  send_bytes(&e->mtime, 8);
  send_bytes(e->path, e->path_size);
  send_bytes(e->target, e->target_size);
  if (!e->size) return;
  int fd = openat(root, e->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) die("opening in scratch");
  for (uint32_t left = e->size; left;) {
    ssize_t n = read(fd, piece, left < sizeof piece ? left : sizeof piece);
    if (n <= 0) die("reading in scratch");
    send_bytes(piece, n);
    left -= n;
  }
  close(fd);
}
