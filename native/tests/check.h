/* The whole test framework: CHECK names what failed and where, and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);  \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* How much a test does: the first in `make test`, the second in `make test-native-long`. */
#ifdef NDD_QUICK
#define SIZED(quick, full) (quick)
#else
#define SIZED(quick, full) (full)
#endif

/* xorshift64*: numbers that look random and are the same everywhere. */
static inline unsigned long long random_bits(unsigned long long *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1DULL;
}

#endif
