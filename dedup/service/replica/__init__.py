"""The service's side of the log: its stores are a view of the insert events."""
