"""A bundle takes recipes to another directory, whole and verified, and nothing else."""

from __future__ import annotations

import os
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_tf import cache
from habana_tf.cache.bundle import BundleError, read_bundle
from habana_tf.cache.disk import Store
from habana_tf.cache.entry import Entry, encode
from habana_tf.cache.listing import Listed
from habana_tf.cache.reader import NoDirectory, Options, Reader, ReadOnly
from habana_tf.cache.recipe_cache import RecipeCache
from habana_tf.files.trust import Refused


@pytest.fixture
def entries(root: Path, make_entry: Callable[..., Entry]) -> list[Entry]:
    """Three recipes in the cache, and a note of a failure."""
    made = [make_entry(name=f"c{seed}", seed=seed) for seed in range(3)]
    for entry in made:
        assert Store(str(root)).write(entry)
    RecipeCache().store_failure(cache.Key.of([("cluster", "f")]), "f", {}, "no kernel", 0.1)
    return made


@pytest.fixture
def bundle(entries: list[Entry], tmp_path: Path) -> Path:
    path = tmp_path / "all.bundle"
    cache.export_bundle(str(path))
    return path


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The other machine's cache."""
    return tmp_path / "there" / "recipes"


def test_recipes_travel(entries: list[Entry], tmp_path: Path, there: Path) -> None:
    path = tmp_path / "all.bundle"
    exported = cache.export_bundle(str(path))
    assert (exported.recipes, exported.file_bytes, exported.problems) == (3, path.stat().st_size, ())
    assert path.stat().st_mode & 0o022 == 0
    assert not list(tmp_path.glob("*.tmp-*"))
    assert cache.import_bundle(str(path), str(there)) == cache.Imported(3, 0, ())
    for entry in entries:
        found = Store(str(there)).read(entry.digest)
        assert found is not None and found.sections == entry.sections and found.created == entry.created
    assert cache.import_bundle(str(path), str(there)) == cache.Imported(0, 3, ())


def test_a_cache_in_use_is_exported_all_the_same(
    entries: list[Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process evicts a recipe between the look at the directory and the copy."""
    contents = Reader.contents

    def evicted(reader: Reader, listed: Listed) -> bytes:
        if "c1-" in listed.path:
            os.unlink(listed.path)
        return contents(reader, listed)

    monkeypatch.setattr(Reader, "contents", evicted)
    exported = cache.export_bundle(str(tmp_path / "all.bundle"))
    assert (exported.recipes, exported.problems) == (2, ())


def test_a_recipe_of_any_size_is_not_read(bundle: Path, there: Path) -> None:
    store = Store(str(there), options=Options(limit=1000))
    with pytest.raises(BundleError, match="more than TF_RECIPE_CACHE_SIZE_MB"):
        list(read_bundle(str(bundle), store))


def test_a_part_can_be_chosen(entries: list[Entry], tmp_path: Path, there: Path) -> None:
    path = str(tmp_path / "some.bundle")
    assert cache.export_bundle(path, select=lambda row: (row.header or {})["name"] != "c1").recipes == 2
    cache.import_bundle(path, str(there))
    assert sorted((row.header or {})["name"] for row in cache.entries(str(there))) == ["c0", "c2"]


def test_damaged_recipes_stay_behind(entries: list[Entry], root: Path, tmp_path: Path) -> None:
    path = next(root.rglob("c1-*.recipe"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    exported = cache.export_bundle(str(tmp_path / "b"))
    assert exported.recipes == 2
    assert [name for name, _ in exported.problems] == [str(path)]


def test_every_damage_is_noticed(bundle: Path, there: Path) -> None:
    """Nothing of a damaged recipe gets into a cache; those before the damage may."""
    data = bundle.read_bytes()
    draw = random.Random(3)
    for _ in range(300):
        changed = bytearray(data)
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        bundle.write_bytes(changed)
        with pytest.raises(BundleError, match=re.escape(str(bundle))):
            cache.import_bundle(str(bundle), str(there))
    for length in [*range(0, 60), *draw.sample(range(len(data)), 50)]:
        bundle.write_bytes(data[:length])
        with pytest.raises(BundleError, match=re.escape(str(bundle))):
            cache.import_bundle(str(bundle), str(there))
    if there.exists():
        assert not cache.verify(str(there)).problems


def _bundle(*files: bytes, count: int | None = None) -> bytes:
    return struct.pack("<8sII", b"\x93RBUNDL\n", 2, len(files) if count is None else count) + b"".join(files)


def test_lies_get_nowhere(there: Path, tmp_path: Path, make_entry: Callable[..., Entry]) -> None:
    """A path for a name, a failure for a recipe, no entry at all."""
    good, third = make_entry(name="../../../evil", seed=1), make_entry(seed=3)
    files = [encode(good), encode(Entry({**third.header, "failure": "no"}, {}))]
    path = tmp_path / "b"
    path.write_bytes(_bundle(*files))
    imported = cache.import_bundle(str(path), str(there))
    assert imported == cache.Imported(1, 0, ((third.name, "it notes a failure, which is no recipe"),))
    (file,) = there.rglob("*.recipe")
    assert file.name == f"evil-{good.digest}.recipe"
    path.write_bytes(_bundle(*files, b"no entry"))
    with pytest.raises(BundleError, match="only 8 bytes long"):
        cache.import_bundle(str(path), str(there))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "there"]


@pytest.mark.parametrize("count", [0, 1, 3, 1 << 31])
def test_another_number_of_recipes(there: Path, tmp_path: Path, make_entry: Callable[..., Entry], count: int) -> None:
    (tmp_path / "b").write_bytes(_bundle(*(encode(make_entry(seed=seed)) for seed in (1, 2)), count=count))
    with pytest.raises(BundleError, match=r"/b.* \(?(more recipes than it says|only 0 bytes long)"):
        cache.import_bundle(str(tmp_path / "b"), str(there))


def test_a_bundle_that_others_could_have_written_is_refused(bundle: Path, there: Path, tmp_path: Path) -> None:
    bundle.chmod(0o646)
    with pytest.raises(Refused, match="chmod go-w"):
        cache.import_bundle(str(bundle), str(there))
    bundle.chmod(0o600)
    (tmp_path / "link").symlink_to(bundle)
    with pytest.raises(Refused):
        cache.import_bundle(str(tmp_path / "link"), str(there))
    if os.geteuid() == 0:
        os.chown(bundle, 65534, -1)
        with pytest.raises(Refused, match="belongs to user 65534"):
            cache.import_bundle(str(bundle), str(there))
    assert not there.exists()


def test_with_a_key_only_signed_recipes_are_imported(
    entries: list[Entry], root: Path, tmp_path: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    key.write_text("k" * 32)
    key.chmod(0o600)
    unsigned = tmp_path / "unsigned"
    cache.export_bundle(str(unsigned))
    monkeypatch.setenv("HABANA_SIM_CACHE_SIGNING_KEY", str(key))
    imported = cache.import_bundle(str(unsigned), str(there))
    assert imported.added == 0 and all("not signed" in problem for _, problem in imported.problems)
    assert cache.export_bundle(str(tmp_path / "none")).recipes == 0
    for entry in entries:
        Store(str(root), options=Options.from_settings()).write(entry)
    signed = tmp_path / "signed"
    assert cache.export_bundle(str(signed)).recipes == 3
    if os.geteuid() == 0:
        os.chown(signed, 65534, -1)
    assert cache.import_bundle(str(signed), str(there)).added == 3


def test_where_nothing_may_be_imported(bundle: Path, monkeypatch: pytest.MonkeyPatch, there: Path) -> None:
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "ro")
    with pytest.raises(ReadOnly):
        cache.import_bundle(str(bundle), str(there))
    monkeypatch.delenv("HABANA_SIM_CACHE_MODE")
    monkeypatch.delenv("TF_RECIPE_CACHE_PATH")
    with pytest.raises(NoDirectory):
        cache.import_bundle(str(bundle))
    with pytest.raises(FileNotFoundError):
        cache.import_bundle(str(bundle) + "x", str(there))
