/* Stands for a set of values in any order: two different ones have it in common by a chance of
 * 2^-128, and it needs neither memory nor a look at each value's place. */
#ifndef NDD_SET_SUM_H
#define NDD_SET_SUM_H

#include "hash/hash.h"

struct set_sum {
    uint64_t a, b;
};

static inline void set_sum_add(struct set_sum *sum, uint64_t value) {
    uint64_t mixed = hash_mix(value ^ NDD_HASH_C0);
    sum->a += mixed;
    sum->b += hash_mix(mixed ^ NDD_HASH_C1);
}

#endif
