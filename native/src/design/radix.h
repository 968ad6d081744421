/* Sorting many 64-bit numbers by some of their bits, in time linear in their number. */
#ifndef NDD_RADIX_H
#define NDD_RADIX_H

#include "design/design.h"

/* Sorts n values by the key that a block takes of them, or, without a block, as numbers. Equal keys
 * keep their order. scratch holds n values too; returns whichever of the two the result is in. Takes one array of
 * 16 KB of stack, and a small frame for each of at most 64 levels, whatever the values. */
uint64_t *radix_sort(uint64_t *values, uint64_t *scratch, size_t n, const struct block *block);

#endif
