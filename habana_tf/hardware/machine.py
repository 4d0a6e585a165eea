"""The simulated machine as a directory: HABANA_SIM_STATE_DIR, with one file `cards` in it.

What: byte n of the file is the lock of the card with module id n, and page n + 1 is the telemetry of its holder
(kernels/runtime/card.h). Two directories are two machines. By default each user of a host has one machine, in
XDG_RUNTIME_DIR or else in the temporary directory. In a directory that others may read they see the cards; only its
owner can claim one.

Why one file that is never closed: a process loses its record locks on a file as soon as it closes *any* descriptor of
it. So this module opens the file once per process, and reading the cards in a process that holds one is safe.

Invariants: the lock file is a regular file of this user or root in a directory that no other user can write to; reading
creates nothing. The directory must be local: over a network file system hosts would share cards. A page is valid only
while its lock is held, and no lock survives a reboot, so the directory may be in memory or on a disk. If the file is
removed while cards are held (by a cleaner of the temporary directory), there is a new machine beside the old one.
"""

from __future__ import annotations

import os
import stat
import threading

from habana_tf import settings
from habana_tf.files.trust import Refused, check

_FILE = "cards"
_lock = threading.Lock()
_opened: dict[tuple[str, bool], int] = {}


class MachineError(RuntimeError):
    """The directory of the simulated machine cannot be used; the message says why and what to do."""


def directory() -> str:
    """The directory that is the machine; it may not exist yet."""
    chosen = settings.HABANA_SIM_STATE_DIR.get()
    if chosen is not None:
        return os.path.realpath(chosen)
    runtime = settings.XDG_RUNTIME_DIR.get()
    if runtime is not None and os.path.isdir(runtime) and os.stat(runtime).st_uid == os.geteuid():
        return os.path.join(runtime, "habana_sim")
    import tempfile  # here, because it costs hl-smi a tenth of its time

    return os.path.join(tempfile.gettempdir(), f"habana_sim-{os.geteuid()}")


def for_claiming() -> int:
    """The descriptor of the machine's file, open for reading and writing; it is never closed. Makes what is missing.

    Raises MachineError.
    """
    path = directory()
    try:
        with _lock:
            return _known(path, True) or _open(path)
    except (OSError, Refused) as error:
        raise MachineError(
            f"the simulated machine {path} cannot be used: {error}. Set HABANA_SIM_STATE_DIR to a local directory "
            "of your own"
        ) from error


def for_reading() -> int | None:
    """A descriptor of the machine's file, or None when no process has claimed a card yet. Raises MachineError."""
    path = directory()
    with _lock:
        known = _known(path, True) or _known(path, False)
        if known:
            return known
        try:
            descriptor = os.open(os.path.join(path, _FILE), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MachineError(f"the cards of the simulated machine {path} cannot be read: {error}") from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise MachineError(
                f"the cards of the simulated machine {path} cannot be read: {_FILE} is not a regular file"
            )
        _opened[path, False] = descriptor
        return descriptor


def _known(path: str, writable: bool) -> int:
    """The descriptor of this process, or 0. One whose file was removed belongs to a machine that is gone."""
    descriptor = _opened.get((path, writable), 0)
    return descriptor if descriptor and os.fstat(descriptor).st_nlink > 0 else 0


def _open(path: str) -> int:
    os.makedirs(path, mode=0o700, exist_ok=True)
    parent = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        check(os.fstat(parent), path)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(_FILE, flags, 0o644, dir_fd=parent)
    finally:
        os.close(parent)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{_FILE} is not a regular file")
        check(status, _FILE)
    except Refused:
        os.close(descriptor)
        raise
    _opened[path, True] = descriptor
    return descriptor
