/* Laid before every file that a mutant edits. RB_MUTANT in the environment holds the number of the mutant that is in
   force, or "reach": then none is, and each number that is asked for is noted once in a file of the check's scratch.
   C libraries are reached under names of their own, so that the headers which follow find nothing declared. */
#ifndef RB_MUTANTS
#define RB_MUTANTS
extern char *rb_getenv(const char *) __asm__("getenv");
extern int rb_open(const char *, int, ...) __asm__("open");
extern long rb_write(int, const void *, unsigned long) __asm__("write");
extern int rb_close(int) __asm__("close");

static int rb_mutant;

/* What can't be noted ends the program: its observation then says that nothing is known. */
__attribute__((unused, noinline, cold)) static int rb_note(unsigned short number)
{
    static unsigned char noted[65536];
    if (!noted[number]) {
        int file = rb_open("/work/.rb-mutants", 02101, 0600); /* write, create, append */
        if (file < 0 || rb_write(file, &number, sizeof number) != sizeof number || rb_close(file) < 0)
            __builtin_trap();
        noted[number] = 1;
    }
    return 0;
}

__attribute__((constructor)) static void rb_start(void)
{
    const char *text = rb_getenv("RB_MUTANT");
    if (text && *text == 'r') {
        rb_mutant = -1;
        rb_note(0);
    }
    for (; text && *text >= '0' && *text <= '9'; text++)
        rb_mutant = 10 * rb_mutant + (*text - '0');
}

__attribute__((unused)) static __inline__ int rb_is(int number)
{
    return rb_mutant < 0 ? rb_note((unsigned short)number) : rb_mutant == number;
}
#endif
#line 1
