"""Each store is opened once in a process, and shared by its users.

LMDB forbids a process to open a file twice, and two spiders of one process must see each other's pages in flight. So
a store is opened under its real path, with what its users keep beside it, and the last user closes it. A forked process
does not use the stores of its parent.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dedup.model.errors import UsageError
from dedup.store.store import Store


class SharedStore:
    """A store, its lock, and the number of its users."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.place = ""
        self.lock = threading.RLock()
        self.users = 0
        self.left = False  # in a process forked since then: the store is the parent's

    def end(self) -> None:
        """Write what is kept beside the store, which is closed then."""


S = TypeVar("S", bound=SharedStore)

_stores: dict[str, Any] = {}
_stores_lock = threading.Lock()


def take(
    made: Callable[[Store], S],
    path: Path,
    namespace: str,
    k: int | None,
    recipe_id: str | None,
    secret: str | None,
) -> S:
    """Return the store of a namespace, opened if necessary: `made` of it. Raises what Store.open() raises."""
    place = _place(path / namespace)
    with _stores_lock:
        shared: S | None = _stores.get(place)
        if shared is None:
            store = Store.open(path, namespace, k, recipe_id, secret=secret)
            try:
                shared = _stores[place] = made(store)
            except BaseException:
                store.close()
                raise
            shared.place = place
        elif shared.store.namespace != namespace:  # a file system without case, or a link
            raise UsageError(
                f"{path / namespace} is the folder of the namespace {shared.store.namespace!r} on this "
                "file system: take a name that differs in more than case"
            )
        shared.users += 1
        return shared


def is_open(folder: Path) -> bool:
    """Whether the store in a folder is open in this process."""
    with _stores_lock:
        return _place(folder) in _stores


def _place(folder: Path) -> str:
    return os.path.normcase(os.path.realpath(folder))


def give_back(shared: SharedStore) -> None:
    """Close a store that has no other user. Raises OSError if the last flush fails."""
    with _stores_lock:
        shared.users -= 1
        if not shared.users:
            if not shared.left:
                del _stores[shared.place]
            try:
                if not shared.left:
                    shared.end()
            finally:
                shared.store.close()


def _leave() -> None:
    """In a forked process: leave the stores to the parent, whose threads may hold their locks."""
    global _stores_lock  # noqa: PLW0603
    _stores_lock = threading.Lock()
    for shared in _stores.values():
        shared.left = True
        shared.lock = threading.RLock()
    _stores.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_leave)
