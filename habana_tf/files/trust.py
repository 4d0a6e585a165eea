"""Which files are trusted: loading a recipe from the cache runs its machine code, and a lock file assigns the cards.

A directory is trusted when it belongs to the current user, to root or to the owner that a `Policy` adds, and no other
user can write to it; a file likewise, when it is a regular file. Exceptions:

- the group may write when it is the user's private group: the user's primary group, with the user's name, no other
  member, and no access control list on the file;
- a cache's root may be a sticky directory such as /tmp: other users can add names there but not replace ours, and
  everything below is checked again;
- with a signing key (`Policy.signed`) a signature identifies the author of an entry: any owner is fine and a group may
  write. World-writable files are refused even then.

Root is no exception, although root in a container meets volumes of other users: if root ran any user's files, that user
would be root. HABANA_SIM_CACHE_OWNER adds one user for the recipe cache.

Invariant: the checked file is the one that is used. Directories and files are opened first, without following symbolic
links below the root, and the open descriptor is checked; a path is never looked up a second time.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from habana_tf.files.escaped import escaped

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # O_NONBLOCK: opening a pipe must not block
_ACL = "system.posix_acl_access"


class Refused(Exception):
    """Another user owns this file or directory or can write to it. The text says how to fix that.

    kind: "owner", "mode", "link", "type", "key" or "signature", for one warning per kind.
    """

    def __init__(self, text: str, kind: str = "type") -> None:
        super().__init__(text)
        self.kind = kind


class Policy(NamedTuple):
    """Trust beside this user and root. owner: the uid of one more user. signed: entries carry signatures.

    advice: what else to do about a foreign owner; {user} is its uid.
    """

    owner: int | None = None
    signed: bool = False
    advice: str = ""


OWN = Policy()


@contextmanager
def root_directory(path: str, create: bool, policy: Policy = OWN) -> Iterator[int]:
    """A descriptor of the cache's root. Raises OSError or Refused."""
    if create:
        os.makedirs(path, mode=0o700, exist_ok=True)
    descriptor = _open(path, _DIRECTORY)
    try:
        check(os.fstat(descriptor), escaped(path), policy, sticky_is_fine=True, descriptor=descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def directory(name: str, parent: int, create: bool, policy: Policy = OWN) -> Iterator[int]:
    """A descriptor of the directory `name` in the open directory `parent`. Raises OSError or Refused."""
    created = False
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, mode=0o700, dir_fd=parent)
            created = True
    descriptor = _open(name, _DIRECTORY | os.O_NOFOLLOW, parent)
    try:
        if created:
            if policy.signed:
                os.fchmod(descriptor, 0o700 | os.fstat(parent).st_mode & (0o070 | stat.S_ISGID))
            hand_over(descriptor, parent, policy)
        check(os.fstat(descriptor), _Where(name, parent), policy, descriptor=descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def regular_file(name: str, parent: int, flags: int = os.O_RDONLY, policy: Policy = OWN) -> Iterator[int]:
    """A descriptor of the file `name` in the open directory `parent`. Raises OSError or Refused.

    With O_CREAT in `flags` a missing file is created with `file_mode`.
    """
    mode = 0o600
    new = False
    if flags != os.O_RDONLY:
        before = _status(name, parent)
        if before is not None and not stat.S_ISREG(before.st_mode):
            raise _no_file(_Where(name, parent))
        new, mode = before is None, file_mode(parent, policy)
    descriptor = _open(name, flags | _FILE, parent, mode)
    try:
        if new and mode != 0o600:
            with suppress(OSError):  # another user's, made at the same moment
                os.fchmod(descriptor, mode)
        if new:
            hand_over(descriptor, parent, policy)
        _checked(descriptor, name, parent, policy)
        yield descriptor
    finally:
        os.close(descriptor)


def replaced(path: str | os.PathLike[str]) -> int:
    """A descriptor of the regular file `path`, created or truncated, to write to. Raises OSError for any other kind: a
    pipe without a reader would make this process wait, and a device would take the data.

    For a file that a program names itself, in a directory that its user has named. Links are followed.
    """
    no_file = OSError(errno.EINVAL, "not a regular file: remove it", os.fspath(path))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe without a reader, a socket
            raise no_file from error
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise no_file
        os.ftruncate(descriptor, 0)
        return descriptor
    except BaseException:
        os.close(descriptor)
        raise


def opened_to_read(name: str, parent: int, policy: Policy = OWN) -> tuple[int, os.stat_result]:
    """As `regular_file`, but the caller closes the descriptor: it, and the status that was checked. A listing opens a
    thousand files, and a context manager for each costs as much as the system calls."""
    descriptor = _open(name, _FILE, parent)
    try:
        return descriptor, _checked(descriptor, name, parent, policy)
    except BaseException:
        os.close(descriptor)
        raise


def _checked(descriptor: int, name: str, parent: int, policy: Policy) -> os.stat_result:
    """The status of an opened file that is regular and believed. Raises Refused."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _no_file(_Where(name, parent))
    check(status, _Where(name, parent), policy, descriptor=descriptor)
    return status


def hand_over(descriptor: int, parent: int, policy: Policy) -> None:
    """Makes `Policy.owner` the owner of a file that root has just made in a directory of that user."""
    if policy.owner is not None and os.geteuid() == 0:
        above = os.fstat(parent)
        if above.st_uid == policy.owner:
            with suppress(OSError):  # root of a container or of a network file system may not be allowed to
                os.fchown(descriptor, above.st_uid, above.st_gid)


def file_mode(parent: int, policy: Policy) -> int:
    """Permissions of a new file in `parent`: for this user alone; in a signed cache also for those of its group."""
    return 0o600 | os.fstat(parent).st_mode & 0o060 if policy.signed else 0o600


def read_all(descriptor: int, size: int | None = None) -> bytes:
    """The file, as long as it is now. Read, not mapped: a mapped file that shrinks kills the process.

    size: its length a moment ago, if known.
    """
    if size is None:
        size = os.fstat(descriptor).st_size
    piece = os.read(descriptor, size) if size else b""
    if len(piece) == size:
        return piece  # one that grew meanwhile is no entry of ours, and its digests say so
    pieces = [piece]
    while piece := os.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _open(name: str, flags: int, parent: int | None = None, mode: int = 0) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=parent)
    except OSError as error:
        if flags & os.O_NOFOLLOW and error.errno in (errno.ENOTDIR, errno.ELOOP):
            path = _Where(name, parent)
            raise Refused(
                f"{path} is a symbolic link or no directory; links are not followed here: remove it", "link"
            ) from error
        raise


def _status(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _no_file(path: object) -> Refused:
    return Refused(f"{path} is not a regular file: remove it")


class _Where:
    """The path of `name` in an open directory, worked out only when a message needs it."""

    def __init__(self, name: str, parent: int | None) -> None:
        self._name, self._parent = name, parent

    def __str__(self) -> str:
        try:
            return escaped(os.path.join(os.readlink(f"/proc/self/fd/{self._parent}"), self._name))
        except OSError:
            return escaped(self._name)


def check(
    status: os.stat_result,
    path: object,
    policy: Policy = OWN,
    sticky_is_fine: bool = False,
    descriptor: int | None = None,
) -> None:
    """Raises Refused when another user owns an opened file or directory or can write to it.

    descriptor: of the file, without which the user's private group is a group like others.
    """
    mode = stat.S_IMODE(status.st_mode)
    user = os.geteuid()
    if status.st_uid not in (user, 0, policy.owner) and not policy.signed:
        advice = policy.advice.format(user=status.st_uid)
        raise Refused(
            f"{path} belongs to user {status.st_uid} and this process is user {user}: run it as that user, choose "
            f"another directory{advice}",
            "owner",
        )
    if sticky_is_fine and mode & stat.S_ISVTX:
        return
    group = mode & stat.S_IWGRP and not policy.signed
    if group and descriptor is not None:
        group = not _is_only_ours(descriptor, user, status.st_gid)
    if group or mode & stat.S_IWOTH:
        raise Refused(
            f"{path} can be written by others (mode {mode:o}): chmod {'o' if policy.signed else 'go'}-w it", "mode"
        )


def _is_only_ours(descriptor: int, user: int, group: int) -> bool:
    """Whether group-writable means writable by `user` alone."""
    if not _is_private_group(user, group):
        return False
    try:
        os.getxattr(descriptor, _ACL)
        return False  # with a list, the group bits are the most that it grants
    except OSError as error:
        return error.errno in (errno.ENODATA, errno.ENOTSUP)


@functools.cache
def _is_private_group(user: int, group: int) -> bool:
    """Whether `group` is the user's own: primary, of the same name, with no other account or member in it."""
    import grp
    import pwd

    try:
        account, name = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    others = [each for each in pwd.getpwall() if each.pw_gid == group and each.pw_uid != user]
    return (
        account.pw_gid == group and name.gr_name == account.pw_name and set(name.gr_mem) <= {account.pw_name}
    ) and not others
