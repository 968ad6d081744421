/*
 * XXH64 with seed 0, after its published specification (xxHash, doc/xxhash_spec.md): the checksum
 * of segments. It finds damage, not malice.
 */
#ifndef NDD_CHECKSUM_H
#define NDD_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t checksum(const uint8_t *bytes, size_t n);

#endif
