/* Drives bz_stream by a script. Data comes on stdin, the script is the arguments, one report line per operation.

   ci:LEVEL:VERB:WORK   di:VERB:SMALL      initialise the current slot for compression, decompression
   c:ACTION:IN:OUT      d:IN:OUT           one call; IN and OUT bytes are made available, "=" leaves what is there
   C:ACTION:IN:OUT      D:IN:OUT           calls in chunks until the action is done (ACTION: 0 run, 1 flush, 2 finish)
   ce  de                                  end
   use:N                                   slot 0..3
   limit:N  seek:N                         the input's end, the input's position
   alloc:BUDGET                            own allocator with so many live bytes, "-" for no bound
   null:FN  bare:FN  moved:FN              FN with NULL, with a stream without state, with a stream that was moved
   version                                 BZ2_bzlibVersion

   A call that C leaves undefined is not made, and said to be skipped: on a stream of the other kind, or after an error
   that allows nothing but the end. At the end each used slot shows how much was written, a hash of it and its first bytes. */

#include <bzlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 4
#define GUARD 32

typedef unsigned char byte;
typedef unsigned long long u64;

struct arena {
    long budget, live, asked, given, returned, strange;
    int bounded;
};

struct block {
    struct block *self;
    long size;
};

struct slot {
    bz_stream s;
    byte *out;
    size_t room, len;
    size_t in, end;
    int used, own;
    enum { NONE, COMPRESS, DECOMPRESS } kind;
    int failed;
    struct arena arena;
};

static struct slot slots[SLOTS];
static byte *data;
static size_t data_len;

static void stop(const char *why, const char *what) {
    printf("script error: %s: %s\n", why, what);
    exit(99);
}

static u64 fnv(u64 h, const void *p, size_t n) {
    const byte *b = p;
    while (n--) h = (h ^ *b++) * 1099511628211ULL;
    return h;
}

static void *take(void *opaque, int items, int size) {
    struct arena *a = opaque;
    long n = (long)items * size;
    struct block *b;
    a->asked++;
    if (a->bounded && a->live + n > a->budget) return NULL;
    b = malloc(sizeof *b + (size_t)n);
    if (!b) return NULL;
    b->self = b;
    b->size = n;
    memset(b + 1, 0x5a, (size_t)n);
    a->live += n;
    a->given++;
    return b + 1;
}

static void give(void *opaque, void *p) {
    struct arena *a = opaque;
    struct block *b = (struct block *)p - 1;
    if (!p) return;
    if (b->self != b) {
        a->strange++;
        return;
    }
    b->self = NULL;
    a->live -= b->size;
    a->returned++;
}

static void window_out(struct slot *t, const char *arg) {
    size_t n;
    if (!strcmp(arg, "=")) return;
    n = strtoul(arg, NULL, 10);
    if (t->len + n + GUARD > t->room) {
        t->room = (t->len + n + GUARD) * 2;
        t->out = realloc(t->out, t->room);
        if (!t->out) exit(98);
    }
    memset(t->out + t->len, 0xA5, n + GUARD);
    t->s.next_out = (char *)t->out + t->len;
    t->s.avail_out = (unsigned)n;
}

static void window_in(struct slot *t, const char *arg) {
    size_t n;
    if (!strcmp(arg, "=")) return;
    n = strtoul(arg, NULL, 10);
    if (n > t->end - t->in) n = t->end - t->in;
    t->s.next_in = (char *)data + t->in;
    t->s.avail_in = (unsigned)n;
}

/* One call; the pointers must have moved by what the counters say, and nothing may lie behind the window. */
static int call(struct slot *t, int compress, int action) {
    char *in = t->s.next_in, *out = t->s.next_out;
    unsigned avail_in = t->s.avail_in, avail_out = t->s.avail_out;
    size_t i, room = avail_out;
    int rc = compress ? BZ2_bzCompress(&t->s, action) : BZ2_bzDecompress(&t->s);
    size_t ate = avail_in - t->s.avail_in, made = avail_out - t->s.avail_out;
    if ((size_t)(t->s.next_in - in) != ate) printf("! next_in moved by %ld, avail_in by %ld\n", (long)(t->s.next_in - in), (long)ate);
    if ((size_t)(t->s.next_out - out) != made) printf("! next_out moved by %ld, avail_out by %ld\n", (long)(t->s.next_out - out), (long)made);
    t->in += ate;
    t->len += made;
    if (rc <= BZ_MEM_ERROR) t->failed = 1;
    if (t->out)
        for (i = 0; i < GUARD; i++)
            if (out && (byte)out[room + i] != 0xA5) {
                printf("! wrote behind the window\n");
                break;
            }
    return rc;
}

static void show(struct slot *t, const char *what, int rc) {
    printf("%s = %d; in %u out %u; total %u:%u %u:%u\n", what, rc, t->s.avail_in, t->s.avail_out, t->s.total_in_hi32,
           t->s.total_in_lo32, t->s.total_out_hi32, t->s.total_out_lo32);
}

static void loop(struct slot *t, int compress, int action, const char *in, const char *out) {
    u64 h = 14695981039346656037ULL;
    int rc = 0, calls = 0, held = compress && action != BZ_RUN;
    char name[64];
    if (held) window_in(t, in);
    while (calls < 200000) {
        unsigned seen[4];
        if (!held && t->s.avail_in == 0) window_in(t, in);
        if (t->s.avail_out == 0 || calls == 0) window_out(t, out);
        if (compress && !held && t->s.avail_in == 0 && calls) break;
        rc = call(t, compress, action);
        calls++;
        seen[0] = (unsigned)rc, seen[1] = t->s.avail_in, seen[2] = t->s.avail_out, seen[3] = t->s.total_out_lo32;
        h = fnv(h, seen, sizeof seen);
        if (compress && action == BZ_RUN && rc != BZ_RUN_OK) break;
        if (compress && action == BZ_FLUSH && rc != BZ_FLUSH_OK) break;
        if (compress && action == BZ_FINISH && rc != BZ_FINISH_OK) break;
        if (!compress && rc != BZ_OK) break;
        if (!compress && t->s.avail_in == 0 && t->in >= t->end && t->s.avail_out > 0) break;
    }
    snprintf(name, sizeof name, "%s%d x%d %016llx", compress ? "C" : "D", compress ? action : 0, calls, h);
    show(t, name, rc);
}

static int by_name(const char *fn, bz_stream *s) {
    if (!strcmp(fn, "ci")) return BZ2_bzCompressInit(s, 1, 0, 0);
    if (!strcmp(fn, "di")) return BZ2_bzDecompressInit(s, 0, 0);
    if (!strcmp(fn, "c")) return BZ2_bzCompress(s, BZ_RUN);
    if (!strcmp(fn, "d")) return BZ2_bzDecompress(s);
    if (!strcmp(fn, "ce")) return BZ2_bzCompressEnd(s);
    if (!strcmp(fn, "de")) return BZ2_bzDecompressEnd(s);
    stop("function", fn);
    return 0;
}

static int defined(struct slot *t, const char *op) {
    int other = strchr("cC", *op) ? DECOMPRESS : COMPRESS;
    int end = !strcmp(op, "ce") || !strcmp(op, "de");
    if ((int)t->kind == other || (t->failed && !end)) {
        printf("%s skipped\n", op);
        return 0;
    }
    return 1;
}

static void initialised(struct slot *t, int kind, const char *name, int rc) {
    if (rc == BZ_OK) {
        t->kind = kind == COMPRESS ? COMPRESS : DECOMPRESS;
        t->failed = 0;
    }
    show(t, name, rc);
}

static void special(struct slot *t, const char *op, const char *fn) {
    bz_stream other;
    int rc;
    if (!strcmp(op, "moved") && !defined(t, fn)) return;
    memset(&other, 0, sizeof other);
    if (!strcmp(op, "moved")) memcpy(&other, &t->s, sizeof other);
    rc = by_name(fn, !strcmp(op, "null") ? NULL : &other);
    printf("%s %s = %d\n", op, fn, rc);
}

static void own_memory(struct slot *t, const char *budget) {
    memset(&t->arena, 0, sizeof t->arena);
    t->arena.bounded = strcmp(budget, "-") != 0;
    t->arena.budget = strtol(budget, NULL, 10);
    t->s.bzalloc = take;
    t->s.bzfree = give;
    t->s.opaque = &t->arena;
    t->own = 1;
}

static int split(char *op, char **part) {
    int n = 0;
    for (part[n++] = op; *op; op++)
        if (*op == ':' && n < 5) {
            *op = 0;
            part[n++] = op + 1;
        }
    return n;
}

static int number(const char *s) { return (int)strtol(s, NULL, 10); }

static struct slot *perform(struct slot *t, char *op) {
    char *p[5] = {"", "", "", "", ""};
    int n = split(op, p);
    t->used = 1;
    if (!strcmp(p[0], "ci") && n == 4) {
        initialised(t, COMPRESS, "ci", BZ2_bzCompressInit(&t->s, number(p[1]), number(p[2]), number(p[3])));
    } else if (!strcmp(p[0], "di") && n == 3) {
        initialised(t, DECOMPRESS, "di", BZ2_bzDecompressInit(&t->s, number(p[1]), number(p[2])));
    } else if (strchr("cCdD", *p[0]) && *p[0] && !defined(t, p[0])) {
        return t;
    } else if (!strcmp(p[0], "c") && n == 4) {
        window_in(t, p[2]);
        window_out(t, p[3]);
        show(t, "c", call(t, 1, number(p[1])));
    } else if (!strcmp(p[0], "d") && n == 3) {
        window_in(t, p[1]);
        window_out(t, p[2]);
        show(t, "d", call(t, 0, 0));
    } else if (!strcmp(p[0], "C") && n == 4) {
        loop(t, 1, number(p[1]), p[2], p[3]);
    } else if (!strcmp(p[0], "D") && n == 3) {
        loop(t, 0, 0, p[1], p[2]);
    } else if (!strcmp(p[0], "ce") || !strcmp(p[0], "de")) {
        printf("%s = %d\n", p[0], by_name(p[0], &t->s));
        t->kind = NONE;
        t->failed = 0;
    } else if (!strcmp(p[0], "use") && number(p[1]) >= 0 && number(p[1]) < SLOTS) {
        return &slots[number(p[1])];
    } else if (!strcmp(p[0], "limit")) {
        t->end = strtoul(p[1], NULL, 10);
        if (t->end > data_len) t->end = data_len;
        if (t->in > t->end) t->in = t->end;
    } else if (!strcmp(p[0], "seek")) {
        t->in = strtoul(p[1], NULL, 10);
        if (t->in > t->end) t->in = t->end;
    } else if (!strcmp(p[0], "alloc")) {
        own_memory(t, p[1]);
    } else if (!strcmp(p[0], "null") || !strcmp(p[0], "bare") || !strcmp(p[0], "moved")) {
        special(t, p[0], p[1]);
    } else if (!strcmp(p[0], "version")) {
        printf("version %s\n", BZ2_bzlibVersion());
    } else {
        stop("operation", p[0]);
    }
    return t;
}

static void report(int i) {
    struct slot *t = &slots[i];
    size_t k, n = t->len < 48 ? t->len : 48;
    printf("slot %d: wrote %lu %016llx ", i, (unsigned long)t->len, fnv(14695981039346656037ULL, t->out, t->len));
    for (k = 0; k < n; k++) printf("%02x", t->out[k]);
    printf("\n");
    /* How many blocks and how large they are is the library's own affair; that all come back is not. */
    if (t->own)
        printf("memory: asked %s, %s\n", t->arena.asked ? "yes" : "no",
               t->arena.strange                          ? "returned what was not given"
               : t->arena.given == t->arena.returned ? "all returned"
                                                         : "kept");
}

int main(int argc, char **argv) {
    struct slot *t = &slots[0];
    size_t room = 1 << 16, got;
    int i;
    data = malloc(room);
    while (data && (got = fread(data + data_len, 1, room - data_len, stdin)) > 0) {
        data_len += got;
        if (data_len == room) data = realloc(data, room *= 2);
    }
    if (!data) return 98;
    for (i = 0; i < SLOTS; i++) slots[i].end = data_len;
    for (i = 1; i < argc; i++) t = perform(t, argv[i]);
    for (i = 0; i < SLOTS; i++)
        if (slots[i].used) report(i);
    return 0;
}
