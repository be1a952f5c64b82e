#include <stdio.h>
#include <string.h>

struct totals {
    unsigned long lines, words, bytes;
};
