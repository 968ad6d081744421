/*
 * fuzz_table.c once more, with crowds of a dozen values instead of thousands: so that the few values of
 * an input make some, and part them again.
 *
 * The table's sources are part of this program; the rest is the library's.
 */
#define CROWD_MANY 12
#define CROWD_FEW 4
#define REST_NS 100.0 /* so that a crowd is always worth while */

#include "table/answer.c"
#include "design/design.c"
#include "design/design_costs.c"
#include "table/documents.c"
#include "design/keying.c"
#include "base/memory.c"
#include "table/numbers.c"
#include "table/table.c"
#include "table/table_crowd.c"
#include "table/table_crowd_near.c"
#include "table/table_format.c"
#include "table/table_index.c"
#include "table/table_lines.c"
#include "table/table_list.c"
#include "table/table_probe.c"
#include "table/trie.c"

#include "fuzz_table.c"
