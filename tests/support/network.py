"""A network that fails on purpose: a TCP proxy between a client and a service, in threads.

with Proxy(service.port) as proxy:
    redis://127.0.0.1:{proxy.port}
    proxy.stall()    # nothing passes any more; connections stand, new ones are taken
    proxy.cut()      # connections are reset, new ones too
    proxy.heal()     # as at first; what was held up passes
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

CHUNK = 1 << 16


class Proxy:
    """Passes bytes both ways between its port and another one."""

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._passes = threading.Event()
        self._passes.set()
        self._refuses = False
        self._closed = False
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def stall(self) -> None:
        self._passes.clear()

    def cut(self) -> None:
        self._refuses = True
        self._reset()

    def heal(self) -> None:
        self._refuses = False
        self._passes.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self.heal()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._reset()
        for thread in self._threads:
            thread.join(60)

    def _reset(self) -> None:
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            with suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.shutdown(socket.SHUT_RDWR)
        for each in sockets:
            each.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target, timeout=60)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._sockets |= {near, far}
            for one, other in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pass, args=(one, other), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(CHUNK):
                self._passes.wait()
                other.sendall(data)
        for each in (one, other):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            with self._lock:
                known = each in self._sockets
                self._sockets.discard(each)
            if known:
                each.close()
