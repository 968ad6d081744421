#include "fuzz.h"

struct fuzz_memory fuzz_memory;
static size_t began;

#ifdef FUZZ_COUNTS_MEMORY
static void taken(const volatile void *p, size_t n) {
    (void)p;
    fuzz_memory.now += n;
    if (fuzz_memory.now > fuzz_memory.most) fuzz_memory.most = fuzz_memory.now;
}

static void freed(const volatile void *p) {
    if (p == NULL) return;
    size_t n = __sanitizer_get_allocated_size(p);
    fuzz_memory.now -= n < fuzz_memory.now ? n : fuzz_memory.now; /* taken before the hooks were set */
}
#endif

void fuzz_count_memory(void) {
#ifdef FUZZ_COUNTS_MEMORY
    static int hooked;
    if (!hooked) {
        hooked = 1;
        MUST(__sanitizer_install_malloc_and_free_hooks(taken, freed) > 0);
    }
#endif
    began = fuzz_memory.most = fuzz_memory.now;
}

size_t fuzz_memory_taken(void) {
    return fuzz_memory.most > began ? fuzz_memory.most - began : 0;
}
