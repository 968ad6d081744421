/*
 * Zeroed memory that begins on a cache line.
 *
 * Large pieces begin on a 2 MiB boundary and ask for huge pages, where the system has them: the
 * tables are read at random, and with small pages every read would also miss the page tables.
 */
#ifndef NDD_MEMORY_H
#define NDD_MEMORY_H

#include <stddef.h>

struct memory {
    void *at;     /* aligned; NULL when there is none */
    void *origin; /* what the allocator gave */
    size_t bytes; /* usable from `at` */
};

/* 1, or 0 when there is no such memory; then *memory is empty. */
int memory_open(struct memory *memory, size_t bytes);
void memory_close(struct memory *memory);

#endif
