#include "table/trie.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4 /* numbers in a new leaf */

static struct trie_node *as_node(const struct trie_part *part) { return (struct trie_node *)part; }
static struct trie_leaf *as_leaf(const struct trie_part *part) { return (struct trie_leaf *)part; }

static uint64_t leaf_size(uint32_t capacity) {
    return sizeof(struct trie_leaf) + (uint64_t)capacity * sizeof(uint64_t);
}

/* Whether a number differs from those of a node above the node's bit. */
static int is_beside(const struct trie_node *node, uint64_t number) {
    return (number ^ node->prefix) >> node->part.bit >> 1 != 0;
}

static int side_of(uint64_t number, uint32_t bit) { return (int)(number >> bit & 1); }

static uint32_t highest_bit(uint64_t x) { /* x is not 0 */
    uint32_t bit = 0;
    for (uint32_t step = 32; step > 0; step /= 2) {
        if (x >> step == 0) continue;
        x >>= step;
        bit += step;
    }
    return bit;
}

void trie_open(struct trie *trie) { *trie = (struct trie){0}; }

static void part_close(struct trie_part *part) {
    if (part->bit != NDD_TRIE_LEAF) {
        part_close(as_node(part)->child[0]);
        part_close(as_node(part)->child[1]);
    }
    free(part);
}

void trie_close(struct trie *trie) {
    if (trie->root != NULL) part_close(trie->root);
    *trie = (struct trie){0};
}

/* ------------------------------------------------------------------------------------ finding */

/* The first number of a leaf that is not below another. */
static uint32_t leaf_lower(const struct trie_leaf *leaf, uint64_t number) {
    uint32_t low = 0, high = leaf->part.count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (leaf->numbers[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int trie_has(const struct trie *trie, uint64_t number) {
    const struct trie_part *part = trie->root;
    if (part == NULL) return 0;
    while (part->bit != NDD_TRIE_LEAF) part = as_node(part)->child[side_of(number, part->bit)];
    uint32_t at = leaf_lower(as_leaf(part), number);
    return at < part->count && as_leaf(part)->numbers[at] == number;
}

/* Calls itself once for each bit, at most. */
static const uint64_t *part_run(const struct trie_part *part, uint64_t from, uint32_t *count) {
    if (part->bit == NDD_TRIE_LEAF) {
        uint32_t at = leaf_lower(as_leaf(part), from);
        *count = part->count - at;
        return *count > 0 ? as_leaf(part)->numbers + at : NULL;
    }
    const struct trie_node *node = as_node(part);
    if (is_beside(node, from)) {
        if (from > node->prefix) return NULL;
        from = node->prefix;
    }
    if (side_of(from, part->bit) == 0) {
        const uint64_t *run = part_run(node->child[0], from, count);
        if (run != NULL) return run;
        from = node->prefix | UINT64_C(1) << part->bit;
    }
    return part_run(node->child[1], from, count);
}

const uint64_t *trie_run(const struct trie *trie, uint64_t from, uint32_t *count) {
    return trie->root == NULL ? NULL : part_run(trie->root, from, count);
}

/* ------------------------------------------------------------------------------------- adding */

/* A leaf with room for `capacity` numbers; one that exists is moved. NULL without memory. */
static struct trie_leaf *leaf_make(struct trie *trie, struct trie_leaf *leaf, uint32_t capacity) {
    struct trie_leaf *made = realloc(leaf, (size_t)leaf_size(capacity));
    if (made == NULL) return NULL;
    if (leaf == NULL) {
        made->part = (struct trie_part){.bit = NDD_TRIE_LEAF};
    } else {
        trie->bytes -= leaf_size(made->part.capacity);
    }
    made->part.capacity = capacity;
    trie->bytes += leaf_size(capacity);
    return made;
}

/* Where the part is that a number belongs to: a leaf, or a node that it is beside. */
static struct trie_part **find_part(struct trie *trie, uint64_t number) {
    struct trie_part **at = &trie->root;
    while ((*at)->bit != NDD_TRIE_LEAF && !is_beside(as_node(*at), number)) {
        at = &as_node(*at)->child[side_of(number, (*at)->bit)];
    }
    return at;
}

/* A node above a part and a new leaf, for a number that differs in this bit, and in none above it, from
 * all numbers of the part, or from some. */
static struct trie_leaf *put_above(struct trie *trie, struct trie_part **at, uint32_t bit,
                                   uint64_t number, uint32_t room, int new_side) {
    struct trie_node *node = malloc(sizeof *node);
    struct trie_leaf *leaf = node == NULL ? NULL : leaf_make(trie, NULL, room);
    if (leaf == NULL) {
        free(node);
        return NULL;
    }
    node->part = (struct trie_part){.bit = (uint8_t)bit};
    node->prefix = number >> bit >> 1 << 1 << bit;
    node->child[new_side] = &leaf->part;
    node->child[!new_side] = *at;
    trie->bytes += sizeof *node;
    *at = &node->part;
    return leaf;
}

/* Splits a full leaf by the highest bit in which its numbers, or the new one, differ. */
static ndd_status part_leaf(struct trie *trie, struct trie_part **at, uint64_t number) {
    struct trie_leaf *leaf = as_leaf(*at);
    uint64_t first = leaf->numbers[0], last = leaf->numbers[leaf->part.count - 1];
    uint32_t bit = highest_bit((first ^ last) | (first ^ number));
    uint64_t middle = last >> bit << bit; /* numbers from here on have that bit, if the last has */
    uint32_t kept = side_of(last, bit) ? leaf_lower(leaf, middle) : leaf->part.count;
    uint32_t moved = leaf->part.count - kept;
    if (kept == 0) { /* the new one alone is below */
        return put_above(trie, at, bit, number, FIRST_ROOM, 0) == NULL ? NDD_NO_MEMORY : NDD_OK;
    }
    uint32_t room = moved < NDD_TRIE_LEAF_MOST - FIRST_ROOM ? moved + FIRST_ROOM : NDD_TRIE_LEAF_MOST;
    struct trie_leaf *upper = put_above(trie, at, bit, number, room, 1);
    if (upper == NULL) return NDD_NO_MEMORY;
    memcpy(upper->numbers, leaf->numbers + kept, moved * sizeof *upper->numbers);
    upper->part.count = (uint8_t)moved;
    leaf->part.count = (uint8_t)kept;
    return NDD_OK;
}

ndd_status trie_make_room(struct trie *trie, uint64_t number) {
    if (trie->root == NULL) {
        struct trie_leaf *leaf = leaf_make(trie, NULL, FIRST_ROOM);
        if (leaf == NULL) return NDD_NO_MEMORY;
        trie->root = &leaf->part;
        return NDD_OK;
    }
    struct trie_part **at = find_part(trie, number);
    if ((*at)->bit != NDD_TRIE_LEAF) {
        uint32_t bit = highest_bit(as_node(*at)->prefix ^ number);
        int side = side_of(number, bit);
        return put_above(trie, at, bit, number, FIRST_ROOM, side) == NULL ? NDD_NO_MEMORY : NDD_OK;
    }
    struct trie_leaf *leaf = as_leaf(*at);
    uint32_t room = leaf->part.capacity;
    if (leaf->part.count < room) return NDD_OK;
    if (room == NDD_TRIE_LEAF_MOST) return part_leaf(trie, at, number);
    room += room / 2;
    leaf = leaf_make(trie, leaf, room < NDD_TRIE_LEAF_MOST ? room : NDD_TRIE_LEAF_MOST);
    if (leaf == NULL) return NDD_NO_MEMORY;
    *at = &leaf->part;
    return NDD_OK;
}

void trie_put(struct trie *trie, uint64_t number) {
    struct trie_part *part = trie->root;
    while (part->bit != NDD_TRIE_LEAF) part = as_node(part)->child[side_of(number, part->bit)];
    struct trie_leaf *leaf = as_leaf(part);
    uint32_t at = leaf_lower(leaf, number);
    memmove(leaf->numbers + at + 1, leaf->numbers + at, (part->count - at) * sizeof *leaf->numbers);
    leaf->numbers[at] = number;
    part->count++;
    trie->count++;
}

/* ----------------------------------------------------------------------------------- removing */

/* A leaf is gone: what stood beside it takes the place of the node above them. */
static void drop_leaf(struct trie *trie, struct trie_part **above, struct trie_leaf *leaf) {
    trie->bytes -= leaf_size(leaf->part.capacity);
    if (above == NULL) {
        trie->root = NULL;
    } else {
        struct trie_node *node = as_node(*above);
        *above = node->child[node->child[0] == &leaf->part];
        trie->bytes -= sizeof *node;
        free(node);
    }
    free(leaf);
}

/* Two leaves become one where both together are half of one; without memory they stay two. */
static void join_leaves(struct trie *trie, struct trie_part **above) {
    struct trie_node *node = as_node(*above);
    struct trie_part *left = node->child[0], *right = node->child[1];
    if (left->bit != NDD_TRIE_LEAF || right->bit != NDD_TRIE_LEAF) return;
    uint32_t count = (uint32_t)left->count + right->count;
    if (count > NDD_TRIE_LEAF_MOST / 2) return;
    if (left->capacity < count) {
        struct trie_leaf *larger = leaf_make(trie, as_leaf(left), count);
        if (larger == NULL) return;
        left = node->child[0] = &larger->part;
    }
    memcpy(as_leaf(left)->numbers + left->count, as_leaf(right)->numbers,
           right->count * sizeof(uint64_t));
    left->count = (uint8_t)count;
    drop_leaf(trie, above, as_leaf(right));
}

/* A leaf that is mostly empty gives memory back, if it can. */
static struct trie_leaf *shrink_leaf(struct trie *trie, struct trie_leaf *leaf) {
    uint32_t room = leaf->part.count + FIRST_ROOM;
    if (leaf->part.capacity <= 2 * room) return leaf;
    struct trie_leaf *smaller = leaf_make(trie, leaf, room);
    return smaller == NULL ? leaf : smaller;
}

int trie_remove(struct trie *trie, uint64_t number) {
    struct trie_part **above = NULL, **at = &trie->root;
    if (*at == NULL) return 0;
    while ((*at)->bit != NDD_TRIE_LEAF) {
        above = at;
        at = &as_node(*at)->child[side_of(number, (*at)->bit)];
    }
    struct trie_leaf *leaf = as_leaf(*at);
    uint32_t gap = leaf_lower(leaf, number);
    if (gap == leaf->part.count || leaf->numbers[gap] != number) return 0;
    leaf->part.count--;
    memmove(leaf->numbers + gap, leaf->numbers + gap + 1,
            (leaf->part.count - gap) * sizeof *leaf->numbers);
    trie->count--;
    if (leaf->part.count == 0) {
        drop_leaf(trie, above, leaf);
    } else {
        *at = &shrink_leaf(trie, leaf)->part;
        if (above != NULL) join_leaves(trie, above);
    }
    return 1;
}

/* --------------------------------------------------------------------------------- validation */

struct seen {
    uint64_t count, bytes, after; /* the next number is this or more, */
    int ended;                    /* and there is none */
};

static const char *validate_leaf(const struct trie_leaf *leaf, struct seen *seen) {
    const struct trie_part *part = &leaf->part;
    if (part->count > part->capacity || part->capacity > NDD_TRIE_LEAF_MOST) return "a leaf is overfull";
    for (uint32_t i = 0; i < part->count; i++) {
        uint64_t number = leaf->numbers[i];
        if (seen->ended || number < seen->after) return "the numbers of a leaf are not in order";
        seen->ended = number == UINT64_MAX;
        seen->after = number + 1;
    }
    seen->count += part->count;
    seen->bytes += leaf_size(part->capacity);
    return NULL;
}

/* All numbers of a part have these bits under the mask. */
static const char *validate_part(const struct trie_part *part, uint64_t mask, uint64_t bits,
                                 struct seen *seen) {
    if (part->bit == NDD_TRIE_LEAF) {
        const struct trie_leaf *leaf = as_leaf(part);
        for (uint32_t i = 0; i < part->count; i++) {
            if ((leaf->numbers[i] & mask) != bits) return "a number is in another's leaf";
        }
        return validate_leaf(leaf, seen);
    }
    const struct trie_node *node = as_node(part);
    if (part->bit > 63) return "a node has no bit";
    uint64_t bit = UINT64_C(1) << part->bit, above = ~(bit | (bit - 1));
    if ((above & mask) != mask) return "a node is not below the one above it";
    if ((node->prefix & ~above) != 0 || (node->prefix & mask) != bits) return "a prefix is wrong";
    for (uint32_t side = 0; side < 2; side++) {
        uint64_t own = node->prefix | (side ? bit : 0);
        const char *reason = validate_part(node->child[side], above | bit, own, seen);
        if (reason != NULL) return reason;
    }
    seen->bytes += sizeof *node;
    return NULL;
}

const char *trie_validate(const struct trie *trie) {
    struct seen seen = {0};
    const char *reason = NULL;
    if (trie->root != NULL) reason = validate_part(trie->root, 0, 0, &seen);
    if (reason != NULL) return reason;
    if (seen.count != trie->count) return "the numbers of a trie are miscounted";
    if (seen.bytes != trie->bytes) return "the memory of a trie is miscounted";
    return NULL;
}
