/* Interpolation search: where a number stands, and in how many reads. */
#include <stdint.h>
#include <stdlib.h>


static uint64_t reads;
#define NDD_COUNT_READ() (reads++)
#include "base/interpolate.h"
#include "sorted_values.h"

/* However crowded, a search ends; and on numbers that are spread evenly it guesses well. */
static void test_interpolation_of_many(void) {
    static uint64_t values[1 << 16];
    for (size_t i = 0; i < 1 << 16; i++) values[i] = i;
    values[(1 << 16) - 1] = UINT64_MAX;
    for (uint64_t wanted = 0; wanted < 1 << 16; wanted += 997) {
        reads = 0;
        CHECK(interpolate(values, 1 << 16, wanted, 0) == wanted);
        CHECK(reads <= NDD_GUESSES + 16);
    }
    make_values(0, values, 1 << 16);
    reads = 0;
    for (int round = 0; round < 1000; round++) {
        (void)interpolate(values, 1 << 16, random_bits(&random_state), 0);
    }
    CHECK(reads < 5 * 1000); /* halving alone takes 13 */
}

static void test_interpolation(void) {
    static uint64_t values[3000];
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t n = 0; n <= 3000; n = n < 20 ? n + 1 : n * 3) {
            make_values(kind, values, n);
            for (int round = 0; round < 200; round++) {
                uint64_t wanted = round == 0 ? 0 : round == 1 ? UINT64_MAX : make_query(values, n);
                reads = 0;
                size_t at = interpolate(values, n, wanted, 0);
                CHECK(reads <= NDD_GUESSES + 12); /* 3000 < 2^12 */
                CHECK(at == 0 || values[at - 1] < wanted);
                CHECK(at == n || values[at] >= wanted);
            }
        }
    }
}

int main(void) {
    test_interpolation_of_many();
    test_interpolation();
    return 0;
}
