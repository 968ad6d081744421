"""The commands of the lab: `dedup demo`, `evaluate`, `bench` and `plan --cluster`."""
