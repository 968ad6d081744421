/*
 * A set of 16-byte digests in memory of the caller, such as a mapped file (see ndd.h).
 *
 * Open addressing: a digest is searched from the slot that its first eight bytes name, in the order of the
 * slots, up to an empty one. The digests are keyed hashes, so their places are evenly spread whatever was
 * hashed. Any bytes are a valid set: a search ends after all slots, and a slot counts only if its 16 bytes
 * are those of the digest. So a file that was cut or altered may forget digests, and never invents one.
 */
#include <string.h>

#include "base/bytes.h"
#include "ndd.h"

enum { DIGEST = 16, SLOT = NDD_DIGEST_SLOT };

static uint64_t first_slot(const uint8_t *digest, uint64_t slots) {
    uint64_t high = load8_le(digest) >> 32; /* slots < 2^32 */
    return high * slots >> 32;
}

/* The slot of a digest, or the empty one where it belongs; NULL if all slots hold others. */
static uint8_t *slot_of(uint8_t *bytes, uint64_t slots, const uint8_t *digest) {
    uint64_t at = slots > 0 ? first_slot(digest, slots) : 0;
    for (uint64_t seen = 0; seen < slots; seen++) {
        uint8_t *slot = bytes + at * SLOT;
        if (slot[DIGEST] == 0 || memcmp(slot, digest, DIGEST) == 0) return slot;
        at = at + 1 < slots ? at + 1 : 0;
    }
    return NULL;
}

int ndd_digest_find(const uint8_t *bytes, uint64_t slots, const uint8_t *digest) {
    const uint8_t *slot = slot_of((uint8_t *)(uintptr_t)bytes, slots, digest);
    return slot == NULL ? 0 : slot[DIGEST];
}

int ndd_digest_put(uint8_t *bytes, uint64_t slots, const uint8_t *digest, uint8_t mark) {
    uint8_t *slot = slot_of(bytes, slots, digest);
    if (slot == NULL || mark == 0) return -1;
    int before = slot[DIGEST];
    if (before == 0) memcpy(slot, digest, DIGEST);
    slot[DIGEST] = mark; /* last: a kill before it leaves the slot empty */
    return before;
}

uint64_t ndd_digest_copy(const uint8_t *from, uint64_t slots, uint8_t *to, uint64_t to_slots, int last_byte) {
    uint64_t copied = 0;
    for (uint64_t i = 0; i < slots; i++) {
        const uint8_t *slot = from + i * SLOT;
        if (slot[DIGEST] == 0 || (last_byte >= 0 && slot[DIGEST - 1] != last_byte)) continue;
        copied += ndd_digest_put(to, to_slots, slot, slot[DIGEST]) == 0;
    }
    return copied;
}
