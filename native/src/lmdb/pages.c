/*
 * Looks over the pages of documents.mdb before LMDB touches them.
 *
 * LMDB trusts its file: a cut or altered one can end the process (SIGBUS, a failed assertion) or give wrong
 * answers without a word. So each opening walks the file's trees first, in the order of their keys, and adds
 * up what the records say; the store compares the sum with the one it wrote.
 *
 * The rules kept: only the file's bytes decide; no pointer is followed before it is known to be inside the
 * file. Every page is reached once and bears its own number, and no free page is in a tree; every node lies
 * inside its page; keys rise. Not verified: the bodies of the records (each has a checksum of its own, tested
 * whenever it is read) and the contents of free pages. The state under either meta page is returned: the
 * newer one must be that of the later transaction, or a meta page that is damaged would bring an older state
 * back. The pages of the older state are walked instead where the caller says so.
 *
 * The layout is that of LMDB 0.9 (mdb.c, "Page headers" and "Nodes") on 64-bit little-endian machines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "ndd_bulk.h"

#define HEADER 16u /* bytes before the node pointers of a page */
#define NODE 8u    /* bytes before the key of a node */
#define MAGIC 0xBEEFC0DEu
#define NO_PAGE UINT64_MAX
#define DEEPEST 32u /* levels of a tree: as many as LMDB's cursors have */
#define TREE 48u    /* bytes of a tree's description */

enum { BRANCH = 1, LEAF = 2, OVERFLOW = 4, META = 8 }; /* flags of a page */
enum { BIG = 1, SUB = 2 }; /* flags of a node: its data lies on overflow pages; its data is a tree */
enum { FREE = 8 };         /* flag of the tree of free pages: its keys are integers */
enum keys { NAMES, NUMBERS, INTEGERS }; /* not compared; 8 bytes, big-endian; 8 bytes, little-endian */

struct tree {
    uint32_t depth;
    uint64_t branches, leaves, overflows, entries, root;
};

struct meta {
    uint64_t at;     /* where the trees of free pages and of names are described */
    uint64_t last;   /* the last page in use */
    uint64_t number; /* of the transaction that wrote it */
};

struct walk {
    const uint8_t *file;
    uint64_t size, pages; /* of the file, in bytes and in pages */
    uint32_t page;        /* bytes of a page */
    uint8_t *seen;        /* a bit for each page that was reached; NULL: they are only counted */
    uint64_t visits;
    const struct meta *meta; /* whose state is walked */
    uint64_t beyond; /* free pages behind the end of the file */
    ndd_lmdb *found;
    const char *place, *fault;
};

struct entry {
    const uint8_t *key, *data;
    uint32_t key_size, flags;
    uint64_t size; /* of the data */
};

/* A walk through one tree: what takes its entries. */
struct course {
    enum keys keys;
    int (*take)(struct walk *, const struct entry *, void *to);
    void *to;
    struct tree counted;
    uint64_t last; /* the key before */
};

static int fail(struct walk *walk, const char *fault) {
    if (walk->fault == NULL) walk->fault = fault;
    return 0;
}

static uint32_t load2(const uint8_t *bytes) { return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8; }

static uint64_t load8_be(const uint8_t *bytes) {
    uint64_t x = 0;
    for (int i = 0; i < 8; i++) x = x << 8 | bytes[i];
    return x;
}

static uint64_t load_key(const struct course *course, const uint8_t *key) {
    return course->keys == NUMBERS ? load8_be(key) : load8_le(key);
}

/* Marks a page that is in use, or is free. */
static int mark(struct walk *walk, uint64_t number) {
    if (number > walk->meta->last) return fail(walk, "a page lies beyond the last");
    uint8_t *byte = &walk->seen[number / 8], bit = (uint8_t)(1 << number % 8);
    if (*byte & bit) return fail(walk, "a page is used twice");
    *byte |= bit;
    return 1;
}

/* Counts a page, for the first time. */
static int reach(struct walk *walk, uint64_t number) {
    if (++walk->visits > walk->pages) return fail(walk, "a page is used twice"); /* a ring would never end */
    return walk->seen == NULL || mark(walk, number);
}

/* Returns a page that bears its own number, or NULL. */
static const uint8_t *visit(struct walk *walk, uint64_t number) {
    if (number < 2 || number >= walk->pages) {
        fail(walk, "a page lies beyond the end");
        return NULL;
    }
    const uint8_t *at = walk->file + number * walk->page;
    if (load8_le(at) != number) {
        fail(walk, "a page bears another number than its own");
        return NULL;
    }
    return reach(walk, number) ? at : NULL;
}

/* Returns the data of a node that lies on overflow pages, or NULL. */
static const uint8_t *visit_overflow(struct walk *walk, struct course *course, uint64_t number, uint64_t size) {
    const uint8_t *at = visit(walk, number);
    if (at == NULL) return NULL;
    uint64_t needed = (size + HEADER + walk->page - 1) / walk->page;
    if (load2(at + 10) != OVERFLOW || load4_le(at + 12) != needed) {
        fail(walk, "an overflow page's header");
        return NULL;
    }
    if (needed > walk->pages - number) {
        fail(walk, "an overflow is cut");
        return NULL;
    }
    for (uint64_t i = 1; i < needed; i++) {
        if (!reach(walk, number + i)) return NULL;
    }
    course->counted.overflows += needed;
    return at + HEADER;
}

/* Takes a leaf's node. `low` is the least key of its page. */
static int walk_leaf(struct walk *walk, struct course *course, const uint8_t *node, uint32_t room, int first,
                     uint64_t low) {
    struct entry entry = {node + NODE, NULL, load2(node + 6), load2(node + 4), load4_le(node)};
    if (entry.key_size + (entry.flags & BIG ? 8 : entry.size) > room) return fail(walk, "a node leaves its page");
    if (course->keys != NAMES) {
        if (entry.key_size != 8) return fail(walk, "a key's length");
        uint64_t key = load_key(course, entry.key);
        if (key < low) return fail(walk, "a key is on a wrong page");
        int begins = course->counted.entries == 0;
        if (!begins && (key <= course->last || (first && course->last >= low))) {
            return fail(walk, "the keys do not rise");
        }
        course->last = key;
    }
    course->counted.entries++;
    entry.data = entry.key + entry.key_size;
    if (entry.flags & BIG) entry.data = visit_overflow(walk, course, load8_le(entry.data), entry.size);
    return entry.data != NULL && (course->take == NULL || course->take(walk, &entry, course->to));
}

/* Walks the pages from one on, which has so many levels; its keys are not below `low`. */
static int walk_page(struct walk *walk, struct course *course, uint64_t number, uint32_t levels, uint64_t low) {
    const uint8_t *page = visit(walk, number);
    if (page == NULL) return 0;
    uint32_t kind = levels > 1 ? BRANCH : LEAF, lower = load2(page + 12), upper = load2(page + 14);
    if (load2(page + 10) != kind || lower <= HEADER || lower > upper || upper > walk->page || lower % 2 != 0) {
        return fail(walk, "a page's header");
    }
    *(kind == BRANCH ? &course->counted.branches : &course->counted.leaves) += 1;
    for (uint32_t i = 0; i < (lower - HEADER) / 2; i++) {
        uint32_t at = load2(page + HEADER + 2 * i);
        if (at < upper || at + NODE > walk->page || at % 2 != 0) {
            return fail(walk, "a node lies outside its page");
        }
        const uint8_t *node = page + at;
        uint32_t room = walk->page - at - NODE, key_size = load2(node + 6);
        if (kind == LEAF) {
            if (!walk_leaf(walk, course, node, room, i == 0, low)) return 0;
            continue;
        }
        if (key_size > room) return fail(walk, "a node leaves its page");
        uint64_t least = low; /* the first key of a branch page is not written */
        if (i > 0 && course->keys != NAMES) {
            if (key_size != 8) return fail(walk, "a key's length");
            least = load_key(course, node + NODE);
        }
        uint64_t below = load8_le(node) & ((UINT64_C(1) << 48) - 1);
        if (!walk_page(walk, course, below, levels - 1, least)) return 0;
    }
    return 1;
}

/* Walks a tree, whose description has the numbers of its pages and entries. */
static int walk_tree(struct walk *walk, const char *place, const uint8_t *described, struct course course) {
    const struct tree tree = {load2(described + 6),       load8_le(described + 8),  load8_le(described + 16),
                              load8_le(described + 24), load8_le(described + 32), load8_le(described + 40)};
    walk->place = place;
    if (described[4] != (course.keys == INTEGERS ? FREE : 0)) { /* keys would be compared in another way */
        return fail(walk, "its flags are not those it was made with");
    }
    if (tree.root == NO_PAGE) return tree.entries == 0 || fail(walk, "the root is missing");
    if (tree.depth < 1 || tree.depth > DEEPEST) return fail(walk, "the numbers of pages do not fit");
    if (!walk_page(walk, &course, tree.root, tree.depth, 0)) return 0;
    const struct tree *counted = &course.counted;
    if (counted->branches != tree.branches || counted->leaves != tree.leaves ||
        counted->overflows != tree.overflows || counted->entries != tree.entries) {
        return fail(walk, "the numbers of pages and entries do not fit");
    }
    return 1;
}

/* ------------------------------------------------------------------------------ what is in the trees */

/* A list of free pages. */
static int take_free(struct walk *walk, const struct entry *entry, void *to) {
    (void)to;
    uint64_t before = NO_PAGE;
    if (load8_le(entry->key) > walk->meta->number) return fail(walk, "a transaction's number is too high");
    if (entry->size < 8 || load8_le(entry->data) > entry->size / 8 - 1) return fail(walk, "a list is cut");
    for (uint64_t i = 1; i <= load8_le(entry->data); i++) {
        uint64_t number = load8_le(entry->data + 8 * i);
        if (number >= before || number < 2) return fail(walk, "a list is out of order");
        if (!mark(walk, number)) return 0;
        walk->beyond += number >= walk->pages;
        before = number;
    }
    return 1;
}

static int is_key(const struct entry *entry, const char *name) {
    return entry->key_size == strlen(name) && memcmp(entry->key, name, entry->key_size) == 0;
}

enum { DOCUMENTS, REMOVED, OTHERS, COUNT };
static const char *const names[COUNT] = {"documents", "removed", "meta"};

/* Where one of the three trees is described. */
static int take_name(struct walk *walk, const struct entry *entry, void *to) {
    const uint8_t **trees = to;
    if (entry->flags != SUB || entry->size != TREE) return fail(walk, "an entry is not a tree");
    for (int i = 0; i < COUNT; i++) {
        if (is_key(entry, names[i])) trees[i] = entry->data;
    }
    return 1;
}

static int take_document(struct walk *walk, const struct entry *entry, void *to) {
    ndd_lmdb *found = to;
    if (entry->size <= 8) return fail(walk, "a record is too short");
    found->documents++;
    found->records_sum ^= load8_be(entry->data);
    return 1;
}

static int take_state(struct walk *walk, const struct entry *entry, void *to) {
    if (is_key(entry, "state")) *(struct entry *)to = *entry;
    return walk->fault == NULL;
}

static int walk_names(struct walk *walk, const struct meta *meta, const uint8_t **trees) {
    const struct course course = {.keys = NAMES, .take = take_name, .to = trees};
    if (!walk_tree(walk, "names", walk->file + meta->at + TREE, course)) return 0;
    for (int i = 0; i < COUNT; i++) {
        if (trees[i] == NULL) return fail(walk, "documents, removed or meta is missing");
    }
    return 1;
}

/* --------------------------------------------------------------------------------- the file */

static int read_metas(struct walk *walk, struct meta *metas) {
    walk->place = "its first pages";
    if (walk->size < 4096) return fail(walk, "it is cut");
    walk->page = load4_le(walk->file + 40);
    if (walk->page < 512 || walk->page > 32768 || (walk->page & (walk->page - 1)) != 0 ||
        walk->size < 2 * (uint64_t)walk->page) {
        return fail(walk, "the first page is not readable");
    }
    walk->pages = walk->size / walk->page;
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t at = i * walk->page;
        const uint8_t *page = walk->file + at;
        if (!(load2(page + 10) & META) || load4_le(page + 16) != MAGIC) {
            return fail(walk, "one is not a meta page");
        }
        metas[i] = (struct meta){at + 40, load8_le(page + 136), load8_le(page + 144)};
        walk->found->transaction[i] = metas[i].number;
    }
    walk->found->page = walk->page;
    if (load4_le(walk->file + 20) != load4_le(walk->file + walk->page + 20)) {
        return fail(walk, "the meta pages are of two versions");
    }
    return 1;
}

static int walk_all(struct walk *walk) {
    const uint8_t *trees[COUNT] = {NULL};
    const struct course others = {.keys = NAMES}, removed = {.keys = NUMBERS};
    const struct course documents = {.keys = NUMBERS, .take = take_document, .to = walk->found};
    const struct course lists = {.keys = INTEGERS, .take = take_free};
    if (!walk_tree(walk, "free pages", walk->file + walk->meta->at, lists)) return 0;
    if (!walk_names(walk, walk->meta, trees)) return 0;
    if (!walk_tree(walk, "documents", trees[DOCUMENTS], documents)) return 0;
    if (!walk_tree(walk, "removed", trees[REMOVED], removed)) return 0;
    if (!walk_tree(walk, "meta", trees[OTHERS], others)) return 0;
    walk->place = "free pages"; /* one behind the end of the file was never written */
    return walk->meta->last < walk->pages + walk->beyond || fail(walk, "the last page's number does not fit");
}

ndd_status ndd_lmdb_check(const uint8_t *bytes, uint64_t size, int older, ndd_lmdb *found, char *reason,
                          size_t room) {
    struct walk walk = {.file = bytes, .size = size, .found = found};
    struct meta metas[2];
    *found = (ndd_lmdb){0};
    int sound = read_metas(&walk, metas);
    if (sound && load4_le(bytes + 20) != 1) return NDD_BAD_VERSION;
    if (sound) {
        walk.meta = &metas[(metas[1].number > metas[0].number) ^ (older != 0)];
        /* A list has 8 bytes for each free page, so no sound file has a higher number. */
        if (walk.meta->last < 1 || walk.meta->last >= walk.pages + size / 8) {
            sound = fail(&walk, "the last page's number does not fit");
        }
    }
    if (sound) {
        walk.seen = calloc((size_t)(walk.meta->last / 8) + 1, 1);
        if (walk.seen == NULL) return NDD_NO_MEMORY;
        sound = walk_all(&walk);
        free(walk.seen);
    }
    if (!sound) {
        snprintf(reason, room, "%s: %s", walk.place, walk.fault);
        return NDD_DAMAGED;
    }
    for (int i = 0; i < 2; i++) {
        const uint8_t *trees[COUNT] = {NULL};
        struct entry state = {0};
        struct walk earlier = {.file = bytes, .size = size, .pages = walk.pages, .page = walk.page};
        const struct course course = {.keys = NAMES, .take = take_state, .to = &state};
        if (!walk_names(&earlier, &metas[i], trees) || !walk_tree(&earlier, "meta", trees[OTHERS], course)) continue;
        if (state.data == NULL) continue; /* its pages are in use again */
        found->state_at[i] = (uint64_t)(state.data - bytes);
        found->state_size[i] = state.size;
    }
    return NDD_OK;
}
