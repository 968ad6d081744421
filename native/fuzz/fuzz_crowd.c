/*
 * fuzz_table.c once more, with crowds of a dozen values instead of thousands: so that the few values of
 * an input make some, and part them again. (CMakeLists.txt builds the table for it with these sizes.)
 */
#include "fuzz_table.c"
