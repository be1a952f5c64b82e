/* Drives the calls on files by a script. Data comes on stdin, the script is the arguments, one report line per operation.

   open:PATH:MODE                      BZ2_bzopen ("%" for NULL, nothing for the empty string)
   dopen:PATH:MODE:OFFSET              BZ2_bzdopen of a descriptor that stands at this offset
   wo:PATH:LEVEL:VERB:WORK             BZ2_bzWriteOpen on a new file
   ro:PATH:VERB:SMALL:UNUSED           BZ2_bzReadOpen on a file of which so many bytes were read before
   ro:PATH:VERB:SMALL:UNUSED:null      the same, but the call gets NULL for them
   w:OFFSET:LENGTH                     BZ2_bzWrite of a part of the data;    W:CHUNK   all of it in chunks
   z:OFFSET:LENGTH                     BZ2_bzwrite
   r:LENGTH  y:LENGTH                  BZ2_bzRead, BZ2_bzread;               R:CHUNK, Y:CHUNK   in chunks to the end
   unused  next:SMALL                  BZ2_bzReadGetUnused; go on with the stream that follows in the same file
   wc:ABANDON:MASK  wc64:ABANDON:MASK  BZ2_bzWriteClose, BZ2_bzWriteClose64; NULL for 1 in (low), 2 in high, 4 out (low),
                                       8 out high
   rc                                  BZ2_bzReadClose
   close  flush  err                   BZ2_bzclose, BZ2_bzflush, BZ2_bzerror
   tell  fclose  poke                  of the file below: ftell, fclose, fgetc
   unbuffered                          the file below gets no buffer; before its first use only
   break                               the file below can neither be read nor written from now on
   again:w:LEVEL  again:r:SMALL        another BZ2_bzWriteOpen, BZ2_bzReadOpen on the file below
   noerr                               the next call gets NULL for its error
   null:FN                             FN without a file

   A call that C leaves undefined is not made, and said to be skipped: on a file that was closed, or reading on after an
   error in the data. */

#include <bzlib.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned char byte;
typedef unsigned long long u64;

static byte *data, *total;
static size_t data_len, total_len, total_room;
static FILE *file;
static BZFILE *bz;
static int err, quiet, writing, failed, below = -1;

static u64 fnv(u64 h, const void *p, size_t n) {
    const byte *b = p;
    while (n--) h = (h ^ *b++) * 1099511628211ULL;
    return h;
}

static int *error_at(void) {
    int *at = quiet ? NULL : &err;
    err = 77; /* what a call that sets nothing leaves */
    quiet = 0;
    return at;
}

static void keep(const byte *b, int n) {
    if (n <= 0) return;
    if (total_len + (size_t)n > total_room) {
        total_room = (total_len + (size_t)n) * 2;
        total = realloc(total, total_room);
        if (!total) exit(98);
    }
    memcpy(total + total_len, b, (size_t)n);
    total_len += (size_t)n;
}

static void shown(const byte *b, int n) {
    int i;
    for (i = 0; i < n && i < 24; i++) printf("%02x", b[i]);
    printf("\n");
}

static const char *path_of(const char *s) { return strcmp(s, "%") ? s : NULL; }

static void opens(char **p) {
    int fd = -1;
    file = NULL;
    failed = 0;
    writing = !strcmp(p[0], "wo") || (strcmp(p[0], "ro") && strchr(p[2], 'w'));
    if (!strcmp(p[0], "open")) {
        bz = BZ2_bzopen(path_of(p[1]), path_of(p[2]));
        printf("open %s\n", bz ? "ok" : "NULL");
        return;
    }
    if (!strcmp(p[0], "dopen")) {
        fd = strcmp(p[1], "-1") ? open(p[1], strchr(p[2], 'w') ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0644) : -1;
        if (*p[3]) lseek(fd, atoi(p[3]), SEEK_SET);
        bz = BZ2_bzdopen(fd, path_of(p[2]));
        below = bz ? fd : -1;
        printf("dopen %s\n", bz ? "ok" : "NULL");
        return;
    }
    if (!strcmp(p[0], "wo")) {
        file = fopen(p[1], "wb");
        bz = BZ2_bzWriteOpen(error_at(), file, atoi(p[2]), atoi(p[3]), atoi(p[4]));
        printf("wo %s %d\n", bz ? "ok" : "NULL", err);
        return;
    }
    {
        byte before[BZ_MAX_UNUSED + 8];
        int n = atoi(p[4]), got = 0;
        file = fopen(p[1], "rb");
        if (file && n > 0) got = (int)fread(before, 1, (size_t)(n > BZ_MAX_UNUSED ? BZ_MAX_UNUSED : n), file);
        if (n < 0 || n > BZ_MAX_UNUSED) got = n;
        bz = BZ2_bzReadOpen(error_at(), file, atoi(p[2]), atoi(p[3]), got && !*p[5] ? before : NULL, got);
        printf("ro %s %d\n", bz ? "ok" : "NULL", err);
    }
}

static void part(char **p, size_t *offset, int *len) {
    *offset = strtoul(p[1], NULL, 10);
    *len = atoi(p[2]);
    if (*offset > data_len) *offset = data_len;
    if (*len > 0 && (size_t)*len > data_len - *offset) *len = (int)(data_len - *offset);
}

static void writes(char **p) {
    size_t offset = 0;
    int len = 0, calls = 0;
    if (*p[0] == 'W') {
        int chunk = atoi(p[1]);
        for (err = 0; offset < data_len && err == BZ_OK; offset += (size_t)len, calls++) {
            len = data_len - offset < (size_t)chunk ? (int)(data_len - offset) : chunk;
            BZ2_bzWrite(&err, bz, data + offset, len);
        }
        printf("W x%d %d\n", calls, err);
        return;
    }
    part(p, &offset, &len);
    if (*p[0] == 'w') {
        BZ2_bzWrite(error_at(), bz, data + offset, len);
        printf("w %d\n", err);
    } else {
        printf("z %d\n", BZ2_bzwrite(bz, data + offset, len));
    }
}

static void reads(char **p) {
    int len = atoi(p[1]), n = 0, calls = 0, all = *p[0] == 'R' || *p[0] == 'Y', plain = *p[0] == 'y' || *p[0] == 'Y';
    byte *buf = failed ? NULL : malloc(len > 0 ? (size_t)len : 1);
    u64 h = 14695981039346656037ULL;
    if (failed) {
        printf("%s skipped\n", p[0]);
        return;
    }
    if (!buf) exit(98);
    err = BZ_OK;
    do {
        n = plain ? BZ2_bzread(bz, buf, len) : BZ2_bzRead(all ? &err : error_at(), bz, buf, len);
        calls++;
        h = fnv(h, &n, sizeof n);
        keep(buf, n);
    } while (all && calls < 100000 && (plain ? n > 0 : err == BZ_OK));
    if (plain) BZ2_bzerror(bz, &failed);
    else failed = err == 77 ? 0 : err;
    failed = failed <= BZ_MEM_ERROR;
    printf("%s x%d %d", p[0], calls, n);
    if (!plain) printf(" %d", err);
    printf(" %016llx ", h);
    shown(buf, all ? 0 : n);
    free(buf);
}

static void unused(char **p) {
    static byte rest[BZ_MAX_UNUSED];
    void *at = NULL;
    int n = -1, end;
    BZ2_bzReadGetUnused(error_at(), bz, &at, &n);
    printf("unused %d %d ", err, n);
    shown(at, at ? n : 0);
    if (strcmp(p[0], "next") || err != BZ_OK || !file) return;
    failed = 0;
    if (n > 0) memcpy(rest, at, (size_t)n);
    BZ2_bzReadClose(&err, bz);
    end = n == 0 && (fgetc(file) == EOF);
    if (n == 0 && !end) fseek(file, -1, SEEK_CUR);
    bz = BZ2_bzReadOpen(error_at(), file, 0, atoi(p[1]), rest, n);
    printf("next %s %d%s\n", bz ? "ok" : "NULL", err, end ? " at the end" : "");
}

static void closes(char **p) {
    unsigned a = 7, b = 7, c = 7, d = 7;
    int mask = atoi(p[2]), unknown = quiet, whole = *p[0] == 'c', right = whole || (*p[0] == 'w') == writing;
    if (!strcmp(p[0], "wc")) {
        BZ2_bzWriteClose(error_at(), bz, atoi(p[1]), mask & 1 ? NULL : &a, mask & 4 ? NULL : &c);
        printf("wc %d: %u %u\n", err, a, c);
    } else if (!strcmp(p[0], "wc64")) {
        BZ2_bzWriteClose64(error_at(), bz, atoi(p[1]), mask & 1 ? NULL : &a, mask & 2 ? NULL : &b, mask & 4 ? NULL : &c,
                           mask & 8 ? NULL : &d);
        printf("wc64 %d: %u:%u %u:%u\n", err, b, a, d, c);
    } else if (!strcmp(p[0], "rc")) {
        BZ2_bzReadClose(error_at(), bz);
        printf("rc %d\n", err);
    } else {
        BZ2_bzclose(bz);
        printf("close%s\n", below >= 0 && fcntl(below, F_GETFD) >= 0 ? ", and the descriptor is left open" : "");
    }
    /* After its end, right or with an error of the file, a handle may not be used any more. */
    if (right && (whole || unknown || err == BZ_OK || err <= BZ_MEM_ERROR)) bz = NULL;
    if (whole) file = NULL, below = -1;
}

static void breaks(void) {
    /* A directory's descriptor can neither be read nor written. */
    int fd = open(".", O_RDONLY);
    if (file || below >= 0) dup2(fd, file ? fileno(file) : below);
    close(fd);
    printf("broken\n");
}

static void again(char **p) {
    BZFILE *second = *p[1] == 'w' ? BZ2_bzWriteOpen(error_at(), file, atoi(p[2]), 0, 0)
                                  : BZ2_bzReadOpen(error_at(), file, 0, atoi(p[2]), NULL, 0);
    printf("again %s %d\n", second ? "ok" : "NULL", err);
    if (second && *p[1] == 'w') BZ2_bzWriteClose(NULL, second, 1, NULL, NULL);
    if (second && *p[1] != 'w') BZ2_bzReadClose(NULL, second);
}

static void nothing(const char *fn) {
    void *at = NULL;
    int n = 0;
    err = 77;
    if (!strcmp(fn, "w")) BZ2_bzWrite(&err, NULL, data, 1);
    else if (!strcmp(fn, "r")) printf("%d ", BZ2_bzRead(&err, NULL, &n, 1));
    else if (!strcmp(fn, "wc")) BZ2_bzWriteClose(&err, NULL, 0, NULL, NULL);
    else if (!strcmp(fn, "wc64")) BZ2_bzWriteClose64(&err, NULL, 0, NULL, NULL, NULL, NULL);
    else if (!strcmp(fn, "rc")) BZ2_bzReadClose(&err, NULL);
    else if (!strcmp(fn, "unused")) BZ2_bzReadGetUnused(&err, NULL, &at, &n);
    else if (!strcmp(fn, "unusedargs")) BZ2_bzReadGetUnused(&err, bz, NULL, NULL);
    else if (!strcmp(fn, "buf")) BZ2_bzWrite(&err, bz, NULL, 1);
    else if (!strcmp(fn, "rbuf")) printf("%d ", BZ2_bzRead(&err, bz, NULL, 1));
    else if (!strcmp(fn, "close")) BZ2_bzclose(NULL);
    else if (!strcmp(fn, "wo")) printf("%s ", BZ2_bzWriteOpen(&err, NULL, 9, 0, 0) ? "ok" : "NULL");
    else if (!strcmp(fn, "ro")) printf("%s ", BZ2_bzReadOpen(&err, NULL, 0, 0, NULL, 0) ? "ok" : "NULL");
    else exit(99);
    printf("null %s %d\n", fn, err);
}

static void perform(char *op) {
    char *p[6] = {"", "", "", "", "", ""};
    int n = 0, code = 77;
    for (p[n++] = op; *op; op++)
        if (*op == ':' && n < 6) {
            *op = 0;
            p[n++] = op + 1;
        }
    op = p[0];
    if (!strcmp(op, "open") || !strcmp(op, "dopen") || !strcmp(op, "wo") || !strcmp(op, "ro")) opens(p);
    else if (!strcmp(op, "null")) nothing(p[1]);
    else if (!strcmp(op, "noerr")) quiet = 1;
    else if (!strcmp(op, "tell")) printf("tell %ld\n", file ? ftell(file) : -2L);
    else if (!strcmp(op, "fclose")) {
        if (file && !bz) printf("fclose %d\n", fclose(file));
        if (!bz) file = NULL;
    } else if (!strcmp(op, "break")) breaks();
    else if (!strcmp(op, "again")) again(p);
    else if (!strcmp(op, "poke")) printf("poke %d\n", file ? fgetc(file) : -2);
    else if (!strcmp(op, "unbuffered")) printf("unbuffered %d\n", file ? setvbuf(file, NULL, _IONBF, 0) : -2);
    else if (!bz) printf("%s: no file\n", op);
    else if (!strcmp(op, "w") || !strcmp(op, "W") || !strcmp(op, "z")) writes(p);
    else if (!strcmp(op, "r") || !strcmp(op, "R") || !strcmp(op, "y") || !strcmp(op, "Y")) reads(p);
    else if (!strcmp(op, "unused") || !strcmp(op, "next")) unused(p);
    else if (!strcmp(op, "wc") || !strcmp(op, "wc64") || !strcmp(op, "rc") || !strcmp(op, "close")) closes(p);
    else if (!strcmp(op, "flush")) printf("flush %d\n", BZ2_bzflush(bz));
    else if (!strcmp(op, "err")) {
        const char *s = BZ2_bzerror(bz, &code);
        printf("err %d %s\n", code, s);
    } else {
        printf("script error: %s\n", op);
        exit(99);
    }
}

int main(int argc, char **argv) {
    size_t room = 1 << 16, got;
    int i, from_stdin = 0;
    for (i = 1; i < argc; i++) /* a script that reads compressed data from stdin has no other data there */
        if (!strncmp(argv[i], "open::r", 7) || !strncmp(argv[i], "open:%:r", 8)) from_stdin = 1;
    data = malloc(room);
    while (data && !from_stdin && (got = fread(data + data_len, 1, room - data_len, stdin)) > 0) {
        data_len += got;
        if (data_len == room) data = realloc(data, room *= 2);
    }
    if (!data) return 98;
    for (i = 1; i < argc; i++) perform(argv[i]);
    printf("read %lu %016llx\n", (unsigned long)total_len, fnv(14695981039346656037ULL, total, total_len));
    return 0;
}
