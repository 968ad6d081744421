#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* madvise */
#endif

#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

#define CACHE_LINE ((size_t)64)
#define HUGE_PAGE ((size_t)1 << 21)

int memory_open(struct memory *memory, size_t bytes) {
    size_t alignment = bytes < 2 * HUGE_PAGE ? CACHE_LINE : HUGE_PAGE;
    *memory = (struct memory){NULL, NULL, 0};
    if (bytes > SIZE_MAX - alignment) return 0;
    char *origin = calloc(bytes + alignment, 1);
    if (origin == NULL) return 0;
    size_t past = (size_t)((uintptr_t)origin % alignment);
    char *at = past == 0 ? origin : origin + (alignment - past);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (alignment == HUGE_PAGE) (void)madvise(at, bytes, MADV_HUGEPAGE); /* a hint: may fail */
#endif
    *memory = (struct memory){at, origin, bytes};
    return 1;
}

void memory_close(struct memory *memory) {
    free(memory->origin);
    *memory = (struct memory){NULL, NULL, 0};
}
