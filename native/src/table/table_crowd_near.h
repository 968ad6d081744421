/* What of a crowd lies near a rest. */
#ifndef NDD_TABLE_CROWD_NEAR_H
#define NDD_TABLE_CROWD_NEAR_H

#include "table/answer.h"
#include "table/table_crowd.h"

/* A query, its number, the key of its that leads to a crowd, and where what is found goes. */
struct asked {
    uint64_t query;
    uint32_t number;
    uint32_t k;
    const struct index *index; /* of the table */
    const struct flip *flip;
    ndd_answer *answer;
};

/* Takes all of a crowd within k of a query, whose rest this is. */
ndd_status crowd_near(const struct crowd *crowd, uint64_t rest, const struct asked *asked);

#endif
