/*
 * A set of distinct 64-bit numbers: a dense array of them, and a hash map from number to place.
 *
 * The rule kept: the numbers stand at 0 .. count - 1 in no order; adding appends, removing moves
 * the last one into the gap. So others can keep what belongs to a number in an array beside it.
 * Finding, adding and removing take constant time. A table holds its values in one.
 *
 * The map is open addressing with linear probing. An entry is a place + 1, and in the bits that
 * places do not need, a part of the number's hash, so that most wrong entries are passed over
 * without a look at the number. A few numbers need no map.
 */
#ifndef NDD_NUMBERS_H
#define NDD_NUMBERS_H

#include "base/memory.h"
#include "ndd.h"

#define NDD_NUMBERS_MAX UINT32_C(0x7ffffffe)

struct numbers {
    uint64_t *items;
    uint32_t count;
    uint32_t capacity;
    struct memory map; /* uint32_t[map_size]; empty while capacity is small */
    uint32_t map_size;
    uint32_t place_bits; /* low bits of an entry that hold the place + 1 */
    uint64_t seed;
};

void numbers_open(struct numbers *numbers);
void numbers_close(struct numbers *numbers);

/* 1, and the place, if the number is there, else 0. */
int numbers_find(const struct numbers *numbers, uint64_t number, uint32_t *place);

/* A hint that this number is looked up soon. */
void numbers_prefetch(const struct numbers *numbers, uint64_t number);

/* A guess at the place of a number by its map entry alone, or NDD_NUMBERS_MAX. */
uint32_t numbers_guess(const struct numbers *numbers, uint64_t number);

/* Makes room for `capacity` numbers in all, or for one more. */
ndd_status numbers_reserve(struct numbers *numbers, uint64_t capacity);
ndd_status numbers_make_room(struct numbers *numbers);

/* Appends a number that is not there; there is room. */
void numbers_append(struct numbers *numbers, uint64_t number);

/* Removes the number at a place; the last one moves there. */
void numbers_remove(struct numbers *numbers, uint32_t place);

/* Memory held, without the struct itself. */
uint64_t numbers_bytes(const struct numbers *numbers);

/* NULL, or the rule that does not hold. */
const char *numbers_validate(const struct numbers *numbers);

#endif
