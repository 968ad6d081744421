/* The parts of a table, for table.c, table_list.c and table_probe.c. */
#ifndef NDD_TABLE_H
#define NDD_TABLE_H

#include "ndd.h"
#include "table/documents.h"
#include "table/numbers.h"
#include "table/table_index.h"

#define NDD_SCANNED 512 /* values up to which a table has no index: comparing with all is as fast */

struct ndd_table {
    uint32_t k;
    ndd_preset preset;
    struct numbers values;      /* each distinct value, at its place */
    struct documents documents; /* of the value at each place */
    uint64_t pairs;             /* documents of all values */
    struct index index;
    uint64_t index_made;  /* how often it was built; each time its lines are at other addresses */
    uint64_t index_room;  /* values for which its design was made */
    uint64_t index_limit; /* values up to which it is used; beyond, it is rebuilt */
    uint64_t expected;    /* pairs that the caller announced (ndd_table_expect) and did not insert yet */
    uint64_t soon;        /* values there will be with those, if they make the table grow; or 0 */
};

/* Probes n values as queries `query`, query + 1, ... of an answer that was begun for them. */
ndd_status table_probe(const ndd_table *table, const uint64_t *values, size_t n, uint64_t limit, size_t query,
                       ndd_answer *answer);

#endif
