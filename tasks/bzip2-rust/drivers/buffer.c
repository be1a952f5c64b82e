/* Drives the buffer-to-buffer calls by a script. Data comes on stdin, the script is the arguments.

   c:LEVEL:VERB:WORK:ROOM   BZ2_bzBuffToBuffCompress of the current data into ROOM bytes
   d:SMALL:VERB:ROOM        BZ2_bzBuffToBuffDecompress
   take:OFFSET:LENGTH       the current data becomes this part of it
   swap                     the last output becomes the current data
   null:MASK                the next call gets NULL for 1 dest, 2 length of dest, 4 source
   version                  BZ2_bzlibVersion */

#include <bzlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 32

typedef unsigned char byte;
typedef unsigned long long u64;

static byte *data, *out;
static size_t data_len, out_len;
static int nulls;

static u64 fnv(const byte *b, size_t n) {
    u64 h = 14695981039346656037ULL;
    while (n--) h = (h ^ *b++) * 1099511628211ULL;
    return h;
}

static void report(const char *name, int rc, unsigned room, unsigned len) {
    size_t i, n;
    printf("%s = %d; length %u", name, rc, len);
    if (rc == BZ_OK) {
        n = len < 48 ? len : 48;
        printf(" %016llx ", fnv(out, len));
        for (i = 0; i < n; i++) printf("%02x", out[i]);
        out_len = len;
    }
    printf("\n");
    for (i = 0; i < GUARD; i++)
        if (out[room + i] != 0xA5) {
            printf("! wrote behind the buffer\n");
            break;
        }
}

static void perform(char *op) {
    char *p[5] = {"", "", "", "", ""};
    int n = 0, rc;
    unsigned room, len;
    byte *kept;
    char *word = op;
    for (p[n++] = op; *op; op++)
        if (*op == ':' && n < 5) {
            *op = 0;
            p[n++] = op + 1;
        }
    if (!strcmp(word, "version")) {
        printf("version %s\n", BZ2_bzlibVersion());
    } else if (!strcmp(word, "null")) {
        nulls = atoi(p[1]);
    } else if (!strcmp(word, "swap")) {
        kept = malloc(out_len + 1);
        if (!kept) exit(98);
        if (out_len) memcpy(kept, out, out_len);
        free(data);
        data = kept;
        data_len = out_len;
    } else if (!strcmp(word, "take")) {
        size_t offset = strtoul(p[1], NULL, 10), size = strtoul(p[2], NULL, 10);
        if (offset > data_len) offset = data_len;
        if (size > data_len - offset) size = data_len - offset;
        memmove(data, data + offset, size);
        data_len = size;
    } else if ((!strcmp(word, "c") && n == 5) || (!strcmp(word, "d") && n == 4)) {
        room = len = (unsigned)strtoul(p[n - 1], NULL, 10);
        free(out);
        out = malloc((size_t)room + GUARD);
        if (!out) exit(98);
        memset(out, 0xA5, (size_t)room + GUARD);
        if (*word == 'c')
            rc = BZ2_bzBuffToBuffCompress(nulls & 1 ? NULL : (char *)out, nulls & 2 ? NULL : &len, nulls & 4 ? NULL : (char *)data,
                                          (unsigned)data_len, atoi(p[1]), atoi(p[2]), atoi(p[3]));
        else
            rc = BZ2_bzBuffToBuffDecompress(nulls & 1 ? NULL : (char *)out, nulls & 2 ? NULL : &len, nulls & 4 ? NULL : (char *)data,
                                            (unsigned)data_len, atoi(p[1]), atoi(p[2]));
        nulls = 0;
        report(word, rc, room, len);
    } else {
        printf("script error: %s\n", word);
        exit(99);
    }
}

int main(int argc, char **argv) {
    size_t room = 1 << 16, got;
    int i;
    data = malloc(room);
    while (data && (got = fread(data + data_len, 1, room - data_len, stdin)) > 0) {
        data_len += got;
        if (data_len == room) data = realloc(data, room *= 2);
    }
    if (!data) return 98;
    for (i = 1; i < argc; i++) perform(argv[i]);
    return 0;
}
