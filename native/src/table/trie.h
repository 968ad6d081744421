/*
 * An ordered set of 64-bit numbers: a binary trie over their bits, whose leaves hold up to 64 of them.
 *
 * A node stands for the numbers that share all bits above one, its `bit`, and parts them by that bit;
 * bits in which no two of them differ have no node, so no path is longer than 64. A leaf has its
 * numbers in order, in one piece; read from left to right the leaves have all of them in order. So the
 * first few cost no more than a path.
 *
 * The rule kept: numbers are distinct; a node's prefix holds for all numbers below it.
 * trie_make_room makes all memory that the next trie_put takes; what it made may stay empty.
 */
#ifndef NDD_TRIE_H
#define NDD_TRIE_H

#include "base/bits.h"
#include "ndd.h"

#define NDD_TRIE_LEAF_MOST 64
#define NDD_TRIE_LEAF 255 /* instead of a bit */

struct trie_part {
    uint8_t bit;       /* of a node: its numbers are equal above it; or NDD_TRIE_LEAF */
    uint8_t count;     /* of a leaf: its numbers, */
    uint32_t capacity; /* and how many there is room for */
};

struct trie_node {
    struct trie_part part;
    uint64_t prefix; /* 0 from its bit on down */
    struct trie_part *child[2];
};

struct trie_leaf {
    struct trie_part part;
    uint64_t numbers[];
};

struct trie {
    struct trie_part *root; /* NULL: empty */
    uint64_t count;
    uint64_t bytes; /* memory held, without the struct itself */
};

void trie_open(struct trie *trie);
void trie_close(struct trie *trie);

int trie_has(const struct trie *trie, uint64_t number);

/* Makes room for a number, so that trie_put of it cannot fail. It is not there. */
ndd_status trie_make_room(struct trie *trie, uint64_t number);
void trie_put(struct trie *trie, uint64_t number);

/* Removes a number; 0 if it is not there. */
int trie_remove(struct trie *trie, uint64_t number);

/* The first number that is not below `from`, and those after it that lie in one piece with it, in
 * order; *count is how many. NULL if there is none. */
const uint64_t *trie_run(const struct trie *trie, uint64_t from, uint32_t *count);

/* NULL, or the rule that does not hold. */
const char *trie_validate(const struct trie *trie);

#endif
