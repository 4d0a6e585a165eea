"""A wheel or an archive of the sources that lacks something, or has too much, is found before it is released."""

from __future__ import annotations

import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from release.archives import NEEDED, SOURCES, faults, main

NAME = "habana_tf-0.1.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"
BRIDGE = "habana_tf/_native/_bridge.cpython-311-x86_64-linux-gnu.so"
PLUGIN = "habana_tf/_native/libhabana_plugin.so"
TAGS = "Tag: cp311-cp311-manylinux_2_27_x86_64\nTag: cp311-cp311-manylinux_2_28_x86_64\n"


def elf(machine: int) -> bytes:
    """The first bytes of a library; ELF calls x86-64 62, and AArch64 183."""
    return b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little")


def wheel(folder: Path, leave_out: str = "", name: str = NAME, **more: bytes) -> Path:
    """A wheel with all that is wanted, but for one file; more: other contents, by name."""
    info = "habana_tf-0.1.0.dist-info"
    content: dict[str, bytes] = {
        **{path: elf(62) if ".so" in path else b"" for path in (*NEEDED, BRIDGE)},
        f"{info}/WHEEL": f"Root-Is-Purelib: false\n{TAGS}".encode(),
        f"{info}/METADATA": b"Name: habana-tf\nVersion: 0.1.0\n",
        f"{info}/licenses/LICENSE": b"",
        **more,
    }
    with ZipFile(folder / name, "w") as out:
        for path, data in content.items():
            if path != leave_out:
                out.writestr(path, data)
    return folder / name


def test_a_whole_wheel_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert faults(wheel(tmp_path)) == []
    assert main([str(wheel(tmp_path))]) == 0 and capsys.readouterr().out == f"{NAME}: right\n"


@pytest.mark.parametrize("name", [*NEEDED, BRIDGE, "habana_tf-0.1.0.dist-info/licenses/LICENSE"])
def test_what_a_wheel_lacks_is_named(name: str, tmp_path: Path) -> None:
    said = "; ".join(faults(wheel(tmp_path, name)))
    assert name in said or {BRIDGE: "three libraries"}.get(name, "licence") in said


@pytest.mark.parametrize(
    "more, said",
    [
        ({"tests/test_x.py": b""}, "tests is put beside the package"),
        ({"habana_tf/__pycache__/loader.cpython-311.pyc": b""}, "does not belong into it"),
        ({"habana_tf.libs/libtensorflow_framework-0a1b.so.2": b""}, "is a library of others"),
        ({PLUGIN: elf(183)}, f"{PLUGIN} is for aarch64"),
        ({PLUGIN: b"no library"}, f"{PLUGIN} is for no machine"),
        (
            {"habana_tf-0.1.0.dist-info/WHEEL": b"Root-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n"},
            "its tags are",
        ),
        ({"habana_tf-0.1.0.dist-info/WHEEL": f"Root-Is-Purelib: true\n{TAGS}".encode()}, "not marked as native code"),
        ({"habana_tf-0.1.0.dist-info/METADATA": b"Version: 0.2.0\n"}, "it says that it is 0.2.0"),
    ],
)
def test_what_is_wrong_with_a_wheel_is_said(
    more: dict[str, bytes], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = wheel(tmp_path, **more)
    assert said in "; ".join(faults(path))
    assert main([str(path)]) == 1 and said in capsys.readouterr().out


def test_a_wheel_for_aarch64_is_wholly_for_it(tmp_path: Path) -> None:
    name = "habana_tf-0.1.0-cp311-cp311-manylinux_2_35_aarch64.whl"
    bridge = BRIDGE.replace("x86_64", "aarch64")
    content = {path: elf(183) for path in (*NEEDED, bridge) if ".so" in path} | {
        "habana_tf-0.1.0.dist-info/WHEEL": b"Root-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_35_aarch64\n",
    }
    assert faults(wheel(tmp_path, BRIDGE, name, **content)) == []
    misnamed = {path: data for path, data in content.items() if path != bridge} | {BRIDGE: elf(183)}
    assert faults(wheel(tmp_path, "", name, **misnamed)) == [f"{BRIDGE} is not found by Python"]


def test_an_archive_has_all_sources_and_nothing_else(tmp_path: Path) -> None:
    def archive(names: tuple[str, ...]) -> list[str]:
        with tarfile.open(tmp_path / "habana_tf-0.1.0.tar.gz", "w:gz") as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(f"habana_tf-0.1.0/{name}"))
        return faults(tmp_path / "habana_tf-0.1.0.tar.gz")

    assert archive(SOURCES) == []
    assert archive(SOURCES[1:]) == [f"{SOURCES[0]} is not in it"]
    assert archive((*SOURCES, "build/x.cc")) == ["build/x.cc does not belong into it"]
    assert archive((*SOURCES, "habana_tf/_native/x.so")) == ["habana_tf/_native/x.so is a binary"]
