"""The RESP port: Redis' protocol, connection by connection."""
