/*
 * Runs a fuzz harness without libFuzzer: mutates seeds for FUZZ_SECONDS (default 3) seconds.
 *
 * Seeds are the files named on the command line, and what the harness itself gives through
 * fuzz_seed(). With a compiler that has libFuzzer, link the harness with -fsanitize=fuzzer instead
 * of this file. A sanitizer prints where a crash happened; the number printed at the start repeats
 * the run when it is given as FUZZ_SEED.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
/* Seed number i as bytes to be freed, or NULL when there is no such seed. */
uint8_t *fuzz_seed(size_t i, size_t *n);

#define MAX_SEEDS 256
#define MAX_INPUT (1 << 16)

static uint64_t state;

static uint64_t next(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545F4914F6CDD1D);
}

static size_t mutate(uint8_t *bytes, size_t n) {
    static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff, '<', '>', '&', ';', '/', '"', '\'', '=', '-'};
    size_t changes = 1 + next() % 8;
    while (changes-- > 0) {
        size_t at = n > 0 ? next() % n : 0;
        switch (next() % 6) {
        case 0:
            if (n > 0) bytes[at] = (uint8_t)next();
            break;
        case 1:
            if (n > 0) bytes[at] ^= (uint8_t)(1U << (next() % 8));
            break;
        case 2:
            if (n > 0) bytes[at] = telling[next() % sizeof telling];
            break;
        case 3: /* cut */
            n = n > 0 ? next() % (n + 1) : 0;
            break;
        case 4: { /* copy a run to another place */
            size_t length = n > 0 ? 1 + next() % 64 : 0;
            size_t from = n > 0 ? next() % n : 0;
            if (length > n - from) length = n - from;
            if (length > n - at) length = n - at;
            memmove(bytes + at, bytes + from, length);
            break;
        }
        default: /* insert a run of one byte */ {
            size_t length = 1 + next() % 32;
            if (n + length <= MAX_INPUT) {
                memmove(bytes + at + length, bytes + at, n - at);
                memset(bytes + at, telling[next() % sizeof telling], length);
                n += length;
            }
        }
        }
    }
    return n;
}

int main(int argc, char **argv) {
    uint8_t *seeds[MAX_SEEDS];
    size_t lengths[MAX_SEEDS];
    size_t count = 0;
    while (count < MAX_SEEDS && (seeds[count] = fuzz_seed(count, &lengths[count])) != NULL) count++;
    for (int i = 1; i < argc && count < MAX_SEEDS; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 2;
        }
        seeds[count] = malloc(MAX_INPUT);
        if (seeds[count] == NULL) return 2;
        lengths[count] = fread(seeds[count], 1, MAX_INPUT, file);
        count++;
        fclose(file);
    }
    const char *given = getenv("FUZZ_SEED");
    const char *seconds = getenv("FUZZ_SECONDS");
    state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    if (state == 0) state = 1;
    printf("seed %" PRIu64 ", %zu seed inputs\n", state, count);
    fflush(stdout);
    time_t end = time(NULL) + (seconds != NULL ? atol(seconds) : 3);
    uint8_t *bytes = malloc(MAX_INPUT);
    if (bytes == NULL) return 2;
    uint64_t runs = 0;
    for (size_t i = 0; i < count; i++) LLVMFuzzerTestOneInput(seeds[i], lengths[i]);
    while ((runs & 63) != 0 || time(NULL) < end) {
        size_t n = 0;
        if (count > 0) {
            size_t pick = next() % count;
            n = lengths[pick] < MAX_INPUT ? lengths[pick] : MAX_INPUT;
            memcpy(bytes, seeds[pick], n);
        }
        n = mutate(bytes, n);
        uint8_t *exact = malloc(n > 0 ? n : 1); /* so that a read past the end is seen */
        if (exact == NULL) return 2;
        memcpy(exact, bytes, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
        runs++;
    }
    printf("%" PRIu64 " inputs, no finding\n", runs);
    for (size_t i = 0; i < count; i++) free(seeds[i]);
    free(bytes);
    return 0;
}
