/* Frames between host and worker; wire.py holds the layout and the other half. Strings end in NUL, so requests are used in
 * place. The host is trusted; sizes are checked all the same, since a shifted frame must stop the worker, not lead it. */
#define WIRE_VERSION 1
#define REQUEST_MAX (512u << 20)

enum { IN_PIPE, IN_CLOSED, IN_FILE };
enum { OUT_PIPE, OUT_FULL, OUT_CLOSED };
enum { KIND_FILE, KIND_DIR, KIND_LINK, KIND_FIFO, KIND_OTHER, KIND_HARDLINK };

struct input {
  int kind, mode;
  int64_t mtime;
  const char *path, *target;
  const uint8_t *data;
  uint32_t size;
};

struct request {
  int in, out;
  const char *id, *program;
  char **argv, **env;
  const uint8_t *stdin_data;
  uint32_t stdin_size, files;
  struct input *file;
};

static void die(const char *what) {
  dprintf(2, "worker: %s: %s\n", what, strerror(errno));
  _exit(70);
}

static int read_all(int fd, void *to, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = read(fd, (char *)to + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    done += n;
  }
  return 0;
}

static int write_all(int fd, const void *from, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = write(fd, (const char *)from + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    done += n;
  }
  return 0;
}

/* ---- requests ---- */

static uint8_t *at, *end_of_frame;

static const uint8_t *take(size_t size) {
  if ((size_t)(end_of_frame - at) < size) errno = EPROTO, die("short request");
  at += size;
  return at - size;
}

static uint32_t number(void) {
  uint32_t n;
  memcpy(&n, take(4), 4);
  return n;
}

static const uint8_t *blob(uint32_t *size) {
  *size = number();
  const uint8_t *data = take((size_t)*size + 1);
  if (data[*size]) errno = EPROTO, die("unterminated string");
  return data;
}

static const char *string(void) {
  uint32_t size;
  return (const char *)blob(&size);
}

static char **strings(void) {
  uint32_t count = number();
  if (count > REQUEST_MAX / 8) errno = EPROTO, die("too many strings");
  char **list = malloc((count + 1) * sizeof *list);
  if (!list) die("memory");
  for (uint32_t i = 0; i < count; i++) list[i] = (char *)string();
  list[count] = NULL;
  return list;
}

static void parse(struct request *r) {
  if (number() != WIRE_VERSION) errno = EPROTO, die("version");
  r->in = number(), r->out = number();
  r->id = string(), r->program = string();
  r->argv = strings(), r->env = strings();
  r->stdin_data = blob(&r->stdin_size);
  r->files = number();
  if (r->files > REQUEST_MAX / 32) errno = EPROTO, die("too many files");
  r->file = malloc((r->files + 1) * sizeof *r->file);
  if (!r->file) die("memory");
  for (uint32_t i = 0; i < r->files; i++) {
    struct input *f = &r->file[i];
    f->kind = number(), f->mode = number();
    memcpy(&f->mtime, take(8), 8);
    f->path = string(), f->target = string();
    f->data = blob(&f->size);
  }
  if (at != end_of_frame) errno = EPROTO, die("long request");
}

/* ---- responses: through one buffer, so that a small one is one write ---- */

static uint8_t buffer[1 << 16];
static size_t filled;

static void flush(void) {
  if (write_all(1, buffer, filled)) _exit(0); /* the host has gone */
  filled = 0;
}

static void send_bytes(const void *data, size_t size) {
  if (filled + size > sizeof buffer) flush();
  if (size > sizeof buffer) {
    if (write_all(1, data, size)) _exit(0);
    return;
  }
  memcpy(buffer + filled, data, size);
  filled += size;
}

static void send32(uint32_t n) { send_bytes(&n, 4); }

/* A frame that says that the harness failed on this check; the worker goes on. */
static void send_error(const char *form, ...) {
  char text[512];
  va_list args;
  va_start(args, form);
  int size = vsnprintf(text, sizeof text, form, args);
  va_end(args);
  if (size >= (int)sizeof text) size = sizeof text - 1;
  uint64_t total = 4 + size;
  send_bytes(&total, 8);
  send32(1);
  send_bytes(text, size);
  flush();
}

static void trim(uint8_t **data, size_t *room) {
  if (*room <= 1 << 20) return;
  free(*data);
  *data = NULL, *room = 0;
}
