/* tally: counts what a text holds, or turns its letters by thirteen places. */
#include "tally.h"

static int usage(const char *called)
{
    fprintf(stderr, "%s: usage: tally count|turn [FILE]\n", called);
    return 2;
}

static void account(struct totals *sum, int letter, int *inside)
{
    sum->bytes++;
    if (letter == '\n')
        sum->lines++;
    if (letter == ' ' || letter == '\n' || letter == '\t') {
        *inside = 0;
    } else if (!*inside) {
        *inside = 1;
        sum->words++;
    }
}

static int turned(int letter)
{
    if (letter >= 'a' && letter <= 'z')
        return 'a' + (letter - 'a' + 13) % 26;
    if (letter >= 'A' && letter <= 'Z')
        return 'A' + (letter - 'A' + 13) % 26;
    return letter;
}

int main(int argc, char **argv)
{
    FILE *source = stdin;
    if (argc < 2 || argc > 3)
        return usage(argv[0]);
    if (argc == 3 && !(source = fopen(argv[2], "rb"))) {
        fprintf(stderr, "%s: cannot read %s\n", argv[0], argv[2]);
        return 1;
    }
    int letter, inside = 0;
    struct totals sum = {0, 0, 0};
    if (!strcmp(argv[1], "count")) {
        while ((letter = getc(source)) != EOF)
            account(&sum, letter, &inside);
        printf("%lu %lu %lu\n", sum.lines, sum.words, sum.bytes);
    } else if (!strcmp(argv[1], "turn")) {
        while ((letter = getc(source)) != EOF)
            putchar(turned(letter));
    } else {
        return usage(argv[0]);
    }
    return 0;
}
