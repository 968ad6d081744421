"""Small and read-only disks, for the process that asks and no other: a mount namespace of its own.

    small_disk(path, "256k")   a disk of that size at the folder
    read_only(path)            what is there, but nothing may be changed

Both need root, or a kernel that lets users be root in a namespace of their own; OSError otherwise.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 0x20, 0x1000, 0x4000, 0x40000


def small_disk(path: str, size: str) -> None:
    """Put an empty disk of a size (256k) over a folder."""
    _own_namespace()
    _mount("tmpfs", path, "tmpfs", 0, f"size={size}")


def read_only(path: str) -> None:
    """Make a folder a disk that nobody may write to."""
    _own_namespace()
    _mount(path, path, None, MS_BIND, None)
    _mount(None, path, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None)


def can_mount() -> bool:
    """Tell whether a process may do this here, by trying."""
    code = "import mounting; mounting.small_disk('.', '64k')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, check=False, capture_output=True
    )
    return done.returncode == 0


def _own_namespace() -> None:
    if sys.platform != "linux":
        raise OSError("mount namespaces are Linux's")
    user, group = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWNS | (CLONE_NEWUSER if user else 0))
    if user:
        with contextlib.suppress(OSError):
            Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _mount(None, "/", None, MS_REC | MS_PRIVATE, None)


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None
) -> None:
    texts = [None if t is None else t.encode() for t in (source, target, kind, options)]
    _call("mount", *texts[:3], ctypes.c_ulong(flags), texts[3])


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
