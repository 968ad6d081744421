/* The whole test framework: CHECK names what failed and where, and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
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

/* Numbers of the stream of splitmix64 from a seed (Steele, Lea and Flood, OOPSLA 2014): spread, all different. */
static inline void generate(uint64_t seed, size_t n, uint64_t *values) {
    for (size_t i = 0; i < n; i++) {
        uint64_t z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        values[i] = z ^ z >> 31;
    }
}

#endif
