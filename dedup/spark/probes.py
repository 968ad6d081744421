"""The batch job of Manku, Jain and Das Sarma (WWW 2007), section 3.3: queries against everything stored.

    Q, the queries -> indexed in each worker; F, the fingerprints -> scanned in parts -> matches

The paper builds tables of Q and sends them to every mapper, which scans its chunk of F; so here.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType, LongType, StructType

from dedup.core.bulk.batch import Queries
from dedup.core.numbers import Numbers, many
from dedup.spark.fingerprints import words

FILTER_BYTES = 1 << 28  # in each worker


def probe_fingerprints(
    queries: Numbers, fingerprints: DataFrame, k: int, *, value: str = "value"
) -> DataFrame:
    """Return a row for each pair of a query and a fingerprint within k bits.

    queries       a batch of unsigned 64-bit fingerprints; each worker indexes them once
    fingerprints  with a column of bigints named by `value`; its columns come back, and beside them
                  query (the index in queries, bigint) and distance (bits, int)
    """
    spark = fingerprints.sparkSession
    sent = spark.sparkContext.broadcast(many(queries, "queries").tobytes())
    schema = (
        StructType(list(fingerprints.schema.fields))
        .add("query", LongType())
        .add("distance", IntegerType())
    )
    place = fingerprints.columns.index(value)

    def probe(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index: Any = None
        for part in parts:
            if index is None:
                index = Queries(np.frombuffer(sent.value, np.uint64), k, FILTER_BYTES)
            hits = index.probe(words(part.column(place)))
            if len(hits):
                rows = part.take(pa.array(hits["position"].astype(np.int64)))
                query = pa.array(hits["query"].astype(np.int64))
                distance = pa.array(hits["distance"].astype(np.int32))
                names = [*part.schema.names, "query", "distance"]
                yield pa.RecordBatch.from_arrays([*rows.columns, query, distance], names=names)

    return fingerprints.mapInArrow(probe, schema)
