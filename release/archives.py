"""Checks a wheel or an archive of the sources: what is in it, and what its name promises.

python -m release.archives dist/*
"""

from __future__ import annotations

import re
import sys
import tarfile
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

NEEDED = (
    "habana_tf/__init__.py", "habana_tf/py.typed", "habana_tf/_native/libhabana_plugin.so",
    "habana_tf/_native/libhabana_runtime.so", "habana_tf/_native/_bridge.pyi",
    "habana_frameworks/tensorflow/__init__.py", "habana_frameworks/tensorflow/py.typed",
    "habana_frameworks/tensorflow/include/habana_kernel.h", "habana_tf_horovod.pth", "_habana_tf_horovod.py",
)  # fmt: skip
SOURCES = (
    "CMakeLists.txt", "cmake/aarch64.cmake", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md",
    "kernels/tensorflow_c/kernels.h", "kernels/plugin/kernels.cc",
    "habana_tf/horovod/startup/habana_tf_horovod.pth",
)  # fmt: skip
UNWANTED = re.compile(r"(^|/)(\.git|\.venv[^/]*|__pycache__|build|dist|\.[a-z]+_cache|\.hypothesis)/|\.(pyc|o|log)$")
TOP = {"habana_tf", "habana_frameworks", "habana_tf_horovod.pth", "_habana_tf_horovod.py"}
"""What a wheel may put into site-packages, beside its own .dist-info."""
LIBRARIES = re.compile(r"habana_tf/_native/(lib\w+|_bridge\.[\w.-]+)\.so$")
ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
"""What ELF's header calls an architecture, in its bytes 18 and 19."""


def faults(archive: Path) -> list[str]:
    """What is wrong with a wheel or an archive of the sources; nothing if all is right."""
    if archive.suffix == ".whl":
        return _of_wheel(archive)
    with tarfile.open(archive) as tar:
        names = [each.partition("/")[2] for each in tar.getnames()]
    wrong = [f"{each} is not in it" for each in SOURCES if each not in names]
    wrong += [f"{each} does not belong into it" for each in names if UNWANTED.search(each)]
    return wrong + [f"{each} is a binary" for each in names if each.endswith(".so")]


def _of_wheel(wheel: Path) -> list[str]:
    name, version, python, abi, platform = wheel.stem.split("-")
    info = f"{name}-{version}.dist-info"
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        about = Parser().parsestr(archive.read(f"{info}/WHEEL").decode())
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        libraries = {each: _machine(archive.read(each)) for each in names if ".so" in each}
    tags = {f"{python}-{abi}-{each}" for each in platform.split(".")}
    architecture = "aarch64" if platform.endswith("aarch64") else "x86_64"
    wrong = [f"{each} is not in it" for each in NEEDED if each not in names]
    wrong += [f"{each} does not belong into it" for each in names if UNWANTED.search(each)]
    wrong += [f"{each} is put beside the package" for each in sorted({n.split("/")[0] for n in names} - {*TOP, info})]
    if not any(each.startswith(f"{info}/") and each.endswith("LICENSE") for each in names):
        wrong.append("the licence is not in it")
    wrong += [f"{each} is a library of others" for each in libraries if not LIBRARIES.search(each)]
    wrong += [f"{each} is for {found}" for each, found in libraries.items() if found not in platform]
    wrong += [f"{each} is not found by Python" for each in libraries if "_bridge" in each and architecture not in each]
    if len(libraries) != 3:
        wrong.append(f"three libraries are wanted, not {list(libraries)}")
    if set(about.get_all("Tag") or ()) != tags:
        wrong.append(f"its tags are {about.get_all('Tag')}, and its name says {sorted(tags)}")
    if about["Root-Is-Purelib"] != "false" or python != abi or not python.startswith("cp3"):
        wrong.append("it is not marked as native code of one Python")
    if metadata["Version"] != version:
        wrong.append(f"it says that it is {metadata['Version']}")
    return wrong


def _machine(library: bytes) -> str:
    """The architecture of an ELF file."""
    number = int.from_bytes(library[18:20], "little")
    return ELF_MACHINES.get(number, "no architecture that is known") if library[:4] == b"\x7fELF" else "no machine"


def main(paths: list[str]) -> int:
    failed = False
    for path in map(Path, paths):
        wrong = faults(path)
        failed |= bool(wrong)
        print(f"{path.name}: {'; '.join(wrong) or 'right'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
