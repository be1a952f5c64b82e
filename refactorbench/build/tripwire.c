/* What stands in the place of the old stack's compilers, and at a build's end.
 *
 * Called as .../end N it ends with status N: the trace's last entry, by which it is known to be whole. Called as anything
 * else it refuses: being called is what the trace records.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char refusal[] = "refused: the old stack's compilers are not part of this build\n";

int main(int argc, char **argv)
{
    const char *name = argc > 0 ? strrchr(argv[0], '/') : NULL;
    if (argc == 2 && name && strcmp(name, "/end") == 0)
        return atoi(argv[1]) & 0xff;
    if (write(2, refusal, sizeof refusal - 1) < 0)
        return 98;
    return 97;
}
