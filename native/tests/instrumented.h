/*
 * The core as tests see into it: allocations that fail, counted steps, a slower processor.
 *
 * CMakeLists.txt builds the core's sources once more with NDD_INSTRUMENTED and this file included
 * before everything else; a test that is linked with that build includes it for the switches. What a
 * test allocates itself never fails.
 */
#ifndef INSTRUMENTED_H
#define INSTRUMENTED_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* as memory.c asks for, before the first header */
#endif

#include <stdint.h>
#include <stdlib.h>

extern int64_t allocations_left; /* before one fails, and all after it; negative: none fails */
extern int only_one_fails;       /* and those after it do not */
extern uint64_t probe_steps;     /* 16 values of a segment compared, or a value of it read */
extern int without_lanes;        /* 1: as on a processor that does not count bits of 16 numbers at once */

void *failing_malloc(size_t n);
void *failing_calloc(size_t n, size_t size);
void *failing_realloc(void *p, size_t n);

#ifdef NDD_INSTRUMENTED
#define malloc failing_malloc
#define calloc failing_calloc
#define realloc failing_realloc
#define NDD_COUNT_STEPS(n) (probe_steps += (n))
#define NDD_WITHOUT_LANES without_lanes
#endif

#endif
