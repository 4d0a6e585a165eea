"""What is opened is what was checked; `test_disk_owners` shows the rules at work on a whole cache."""

from __future__ import annotations

import grp
import os
import pwd
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from habana_tf.files import trust
from tests.versions import as_root


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_a_file_is_read_whole(tmp_path: Path, parent: int) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "f").chmod(0o644)
    with trust.regular_file("f", parent) as file:
        assert trust.read_all(file) == data


def test_a_missing_file_is_missing_unless_created(tmp_path: Path, parent: int) -> None:
    with pytest.raises(FileNotFoundError), trust.regular_file("f", parent):
        pass
    with trust.regular_file("f", parent, os.O_RDWR | os.O_CREAT):
        pass
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_a_link_put_there_after_the_look_is_not_followed(
    tmp_path: Path, parent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "target").chmod(0o600)
    (tmp_path / "f").symlink_to("target")
    monkeypatch.setattr(trust, "_status", lambda name, parent: None)
    with pytest.raises(trust.Refused, match="symbolic link"), trust.regular_file("f", parent):
        pass


def test_a_pipe_put_there_after_the_look_does_not_block(
    tmp_path: Path, parent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "f")
    monkeypatch.setattr(trust, "_status", lambda name, parent: None)
    with pytest.raises(trust.Refused, match="not a regular file"), trust.regular_file("f", parent):
        pass


def test_a_file_in_place_of_a_directory_is_refused(tmp_path: Path, parent: int) -> None:
    (tmp_path / "d").write_bytes(b"x")
    with pytest.raises(trust.Refused, match="no directory"), trust.directory("d", parent, create=True):
        pass


def test_no_descriptor_leaks(tmp_path: Path, parent: int) -> None:
    (tmp_path / "bad").write_bytes(b"x")
    (tmp_path / "bad").chmod(0o666)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(trust.Refused), trust.regular_file("bad", parent):
            pass
        with trust.directory("d", parent, create=True):
            pass
    assert len(os.listdir("/proc/self/fd")) == before


# --- the user's private group ---

ME, MINE, OTHER = os.geteuid(), 7001, 7002


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[SimpleNamespace]]]:
    """A system of accounts and groups: this user is `ada`, with the private group `ada`."""
    known = {
        "users": [
            SimpleNamespace(pw_uid=ME, pw_name="ada", pw_gid=MINE),
            SimpleNamespace(pw_uid=60001, pw_name="bob", pw_gid=OTHER),
        ],
        "groups": [
            SimpleNamespace(gr_gid=MINE, gr_name="ada", gr_mem=[]),
            SimpleNamespace(gr_gid=OTHER, gr_name="staff", gr_mem=["ada"]),
        ],
    }

    def only(kind: str, field: str, number: int) -> SimpleNamespace:
        return {getattr(each, field): each for each in known[kind]}[number]

    monkeypatch.setattr(pwd, "getpwall", lambda: known["users"])
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: only("users", "pw_uid", uid))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: only("groups", "gr_gid", gid))
    trust._is_private_group.cache_clear()
    yield known
    trust._is_private_group.cache_clear()


def test_the_private_group_is_the_users_own(accounts: dict[str, list[SimpleNamespace]]) -> None:
    assert trust._is_private_group(ME, MINE)
    assert not trust._is_private_group(ME, OTHER)
    assert not trust._is_private_group(ME, 7999), "a group nobody knows"


@pytest.mark.parametrize("change", ["member", "account", "name", "not primary"])
def test_a_group_with_anybody_else_in_it_is_not_private(
    accounts: dict[str, list[SimpleNamespace]], change: str
) -> None:
    mine, me = accounts["groups"][0], accounts["users"][0]
    if change == "member":
        mine.gr_mem = ["ada", "bob"]
    elif change == "account":
        accounts["users"][1].pw_gid = MINE
    elif change == "name":  # where not every account is listed, a group of many may look empty
        mine.gr_name = "users"
    else:
        me.pw_gid = OTHER
    assert not trust._is_private_group(ME, MINE)


@as_root
def test_the_private_group_may_write(tmp_path: Path, accounts: dict[str, list[SimpleNamespace]]) -> None:
    """As with umask 002, the default for users of many distributions."""
    place = tmp_path / "cache"
    place.mkdir()
    for group, fine in ((MINE, True), (OTHER, False)):
        os.chown(place, -1, group)
        place.chmod(0o775)
        if fine:
            with trust.root_directory(str(place), create=False):
                pass
        else:
            with pytest.raises(trust.Refused, match="chmod go-w"), trust.root_directory(str(place), create=False):
                pass


@as_root
def test_an_access_control_list_ends_the_exception(tmp_path: Path, accounts: dict[str, list[SimpleNamespace]]) -> None:
    """With a list, the group bits are the list's mask: here they mean that user 60001 may write."""
    place = tmp_path / "cache"
    place.mkdir()
    os.chown(place, -1, MINE)
    nobody = 0xFFFFFFFF
    rows = [(1, 7, nobody), (2, 7, 60001), (4, 5, nobody), (16, 7, nobody), (32, 5, nobody)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)
    try:
        os.setxattr(place, "system.posix_acl_access", acl)
    except OSError:
        pytest.skip("no access control lists here")
    assert place.stat().st_mode & 0o777 == 0o775
    with pytest.raises(trust.Refused, match="written by others"), trust.root_directory(str(place), create=False):
        pass


# --- root in a container, on a volume of another user ---


@as_root
def test_one_more_owner_can_be_named(tmp_path: Path) -> None:
    place = tmp_path / "volume"
    place.mkdir(mode=0o755)
    os.chown(place, 60001, 60001)
    with pytest.raises(trust.Refused) as refused, trust.root_directory(str(place), create=False):
        pass
    for words in (str(place), "belongs to user 60001", "this process is user 0"):
        assert words in str(refused.value)
    with trust.root_directory(str(place), False, trust.Policy(owner=60001)):
        pass
    with pytest.raises(trust.Refused), trust.root_directory(str(place), False, trust.Policy(owner=60002)):
        pass
    place.chmod(0o777)
    with pytest.raises(trust.Refused), trust.root_directory(str(place), False, trust.Policy(owner=60001)):
        pass


# --- what a signed cache may look like ---


def test_a_signed_cache_is_made_for_its_group(tmp_path: Path) -> None:
    place = tmp_path / "team"
    place.mkdir()
    place.chmod(0o2770)
    signed = trust.Policy(signed=True)
    umask = os.umask(0o077)
    try:
        with (
            trust.root_directory(str(place), True, signed) as root,
            trust.directory("v", root, True, signed) as inner,
            trust.regular_file("f", inner, os.O_RDWR | os.O_CREAT, signed),
        ):
            assert trust.file_mode(inner, signed) == 0o660
    finally:
        os.umask(umask)
    assert (place / "v").stat().st_mode & 0o7777 == 0o2770
    assert (place / "v" / "f").stat().st_mode & 0o777 == 0o660
    place.chmod(0o2777)
    with pytest.raises(trust.Refused, match="chmod o-w"), trust.root_directory(str(place), True, signed):
        pass
