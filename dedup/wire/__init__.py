"""How a process reaches another: insert events, Kafka, the client of the table service, shards."""
