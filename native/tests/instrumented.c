#include "instrumented.h"

#undef malloc
#undef calloc
#undef realloc

int64_t allocations_left = -1;
int only_one_fails, without_lanes;
uint64_t probe_steps;

static int may_allocate(void) {
    if (allocations_left < 0) return 1;
    if (allocations_left == 0) {
        if (only_one_fails) allocations_left = -1;
        return 0;
    }
    allocations_left--;
    return 1;
}

void *failing_malloc(size_t n) { return may_allocate() ? malloc(n) : NULL; }
void *failing_calloc(size_t n, size_t size) { return may_allocate() ? calloc(n, size) : NULL; }
void *failing_realloc(void *p, size_t n) { return may_allocate() ? realloc(p, n) : NULL; }
