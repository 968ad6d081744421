/*
 * fuzz_table.c once more, with crowds of a dozen values instead of thousands: so that the few values of
 * an input make some, and part them again.
 *
 * The table's sources are part of this program; the rest is the library's.
 */
#define CROWD_MANY 12
#define CROWD_FEW 4
#define REST_NS 100.0 /* so that a crowd is always worth while */

#include "../src/answer.c"
#include "../src/design.c"
#include "../src/design_costs.c"
#include "../src/documents.c"
#include "../src/keying.c"
#include "../src/memory.c"
#include "../src/numbers.c"
#include "../src/table.c"
#include "../src/table_crowd.c"
#include "../src/table_crowd_near.c"
#include "../src/table_format.c"
#include "../src/table_index.c"
#include "../src/table_lines.c"
#include "../src/table_list.c"
#include "../src/table_probe.c"
#include "../src/trie.c"

#include "fuzz_table.c"
