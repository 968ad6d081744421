"""The RESP port of the table service: connections, sessions and the commands."""
