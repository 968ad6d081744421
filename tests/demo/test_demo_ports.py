"""Ports for brokers and services that are killed and come back on the port they had."""

import socket

import ports
import pytest


def test_ports_are_free_and_different():
    """Each of them can be listened to, all at once."""
    found = ports.free_ports(20)
    assert len(set(found)) == 20
    for port in found:
        socket.create_server(("127.0.0.1", port)).close()


def test_a_port_in_use_is_never_given(monkeypatch):
    """With one port to choose from, and that one taken, the system is asked for another."""
    with socket.create_server(("127.0.0.1", ports.free_ports(1)[0])) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "FIRST", port)
        monkeypatch.setattr(ports, "_end", lambda: port + 1)
        assert port not in ports.free_ports(5)


@pytest.mark.skipif(not ports.RANGE.exists(), reason="only Linux tells the range")
def test_nobody_else_is_given_them_by_the_system():
    """They lie before the range of ports that are given to whoever asks for any."""
    first, _ = map(int, ports.RANGE.read_text().split())
    if first <= ports.FIRST:
        pytest.skip("here the system's range begins earlier")
    assert all(ports.FIRST <= port < first for port in ports.free_ports(20))
