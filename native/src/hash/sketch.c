/* The bytes of a sketch, and the similarity that two of them tell (sketch.h). */
#include "hash/sketch.h"

#include <math.h>

#include "base/bits.h"
#include "base/bytes.h"

#define BITS 256
#define SAME_LEAST 27 /* places in use: shorter texts that are equal still differ by their titles */
#define STEPS 10000 /* of a similarity, so that no library's last bit is seen */

enum { SEQUENCE = 1 + BITS / 8, ROUNDS = 5 };

void sketch_end(const struct sketch *sketch, uint8_t bytes[NDD_SKETCH_BYTES]) {
    uint32_t kept = 0;
    memset(bytes, 0, NDD_SKETCH_BYTES);
    for (size_t i = 0; i < NDD_SKETCH_PLACES; i++) {
        uint32_t least = sketch->least[i];
        if (least == NDD_SKETCH_EMPTY) continue;
        kept++;
        bytes[1 + (least & 0xff) / 8] ^= (uint8_t)(1 << least % 8);
    }
    bytes[0] = (uint8_t)kept;
    sketch_mark(bytes, (uint32_t)hash_mix(sketch->sequence));
}

void sketch_mark(uint8_t bytes[NDD_SKETCH_BYTES], uint32_t whole) {
    store4_le(bytes + SEQUENCE, whole);
}

/* Shingles a place, by the share of places that keep none; half a place stands for none at all. */
static double load_of(uint32_t kept) {
    double empty = kept < NDD_SKETCH_PLACES ? NDD_SKETCH_PLACES - (double)kept : 0.5;
    return log(NDD_SKETCH_PLACES / empty);
}

/*
 * d of 256 bits differ: then about D = -128 ln(1 - 2 d / 256) of what the places keep is kept by one text
 * alone, and C = (a + b - D) / 2 by both. Of the places that keep something of either text the share J has
 * the same; how many places these are follows from the load of both and from J, so J is found in rounds.
 */
static double estimate(const uint8_t *a, const uint8_t *b) {
    uint32_t kept_a = a[0], kept_b = b[0];
    if (kept_a == 0 || kept_b == 0) return kept_a == kept_b;
    int differ = 0;
    for (size_t i = 1; i < SEQUENCE; i += 8) differ += count_bits(load8_le(a + i) ^ load8_le(b + i));
    double apart = kept_a > kept_b ? kept_a - kept_b : kept_b - kept_a;
    double most = 2.0 * differ / BITS;
    double alone = -(BITS / 2) * log(1 - (most < 0.97 ? most : 0.97));
    if (alone < apart) alone = apart;
    double common = (kept_a + kept_b - alone) / 2;
    if (common <= 0) return 0;
    double load = load_of(kept_a) + load_of(kept_b), similarity = 1;
    for (int i = 0; i < ROUNDS; i++) {
        double places = NDD_SKETCH_PLACES * (1 - exp(-load / (1 + similarity)));
        similarity = common / places < 1 ? common / places : 1;
    }
    return floor(similarity * STEPS + 0.5) / STEPS;
}

/* The estimate. Texts that differ in a word are at least one step apart; texts that are equal word for word are
 * 1 whatever their titles, unless they are so short that boilerplate alone may be equal. */
double ndd_similarity(const uint8_t a[NDD_SKETCH_BYTES], const uint8_t b[NDD_SKETCH_BYTES]) {
    int same = memcmp(a + SEQUENCE, b + SEQUENCE, NDD_SKETCH_BYTES - SEQUENCE) == 0;
    if (same && a[0] >= SAME_LEAST && b[0] >= SAME_LEAST) return 1;
    double similarity = estimate(a, b);
    return same || similarity < 1 ? similarity : (STEPS - 1.0) / STEPS;
}

void ndd_similarities(const uint8_t *a, const uint8_t *sketches, size_t n, double *similarities) {
    for (size_t i = 0; i < n; i++) similarities[i] = ndd_similarity(a, sketches + i * NDD_SKETCH_BYTES);
}
