/* Probing a crowd: which of its values are within k of a query. */
#ifndef NDD_TABLE_CROWD_NEAR_H
#define NDD_TABLE_CROWD_NEAR_H

#include "table/answer.h"
#include "table/table_crowd.h"

/* A query whose key leads to a crowd, its number in the group, and the answer that takes the matches. */
struct crowd_query {
    uint64_t query;
    uint32_t number;
    uint32_t k;
    const struct index *index; /* of the table */
    const struct flip *flip;
    ndd_answer *answer;
};

/* Adds to the answer every value of the crowd within k of the query; `rest` is the query's. */
ndd_status crowd_near(const struct crowd *crowd, uint64_t rest, const struct crowd_query *asked);

#endif
