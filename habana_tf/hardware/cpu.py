"""The host CPU that runs compiled kernels, and the code-generation target made of it.

What: `host()` says what this CPU has; `target()` says what kernels may use: the host's best, capped by
HABANA_SIM_ISA, with the CPU name and feature string LLVM wants.

Why one place: the compiler chooses vector widths and tile shapes by `Isa`, and machine code is only valid on
a CPU that has its instructions, so the target's parts belong to the recipe key.

Invariant: a target never has an instruction the host lacks; asking for one is an error, not less.
"""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass
from enum import IntEnum

from habana_tf import settings

__all__ = ["Host", "Isa", "IsaError", "Target", "host", "target"]


class Isa(IntEnum):
    """Instruction sets in rising order; each one includes those before it."""

    PORTABLE = 0
    """Whatever every CPU of this architecture has (SSE2, NEON)."""
    AVX2 = 1
    """AVX2 with FMA."""
    AVX512 = 2
    """AVX-512 F, BW, DQ and VL."""
    AMX = 3
    """AMX tiles with bf16 products, beside AVX-512."""


_REQUIRED: dict[Isa, frozenset[str]] = {
    Isa.PORTABLE: frozenset(),
    Isa.AVX2: frozenset({"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}),
    Isa.AVX512: frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    Isa.AMX: frozenset({"amx-tile", "amx-bf16"}),
}
# LLVM's names of the x86-64 micro-architecture levels have exactly the features required above.
_LEVELS = {Isa.PORTABLE: "x86-64", Isa.AVX2: "x86-64-v3", Isa.AVX512: "x86-64-v4"}


class IsaError(RuntimeError):
    """HABANA_SIM_ISA asks for instructions that this CPU does not have."""


@dataclass(frozen=True)
class Host:
    """This machine's CPU, in LLVM's words."""

    architecture: str
    name: str
    features: frozenset[str]
    lacks: frozenset[str] = frozenset()
    """Features LLVM knows and this CPU has not; a virtual machine may lack what its CPU's name implies."""

    @property
    def isa(self) -> Isa:
        """The best instruction set of this CPU."""
        best = Isa.PORTABLE
        for isa in Isa:
            if not _REQUIRED[isa] <= self.features:
                break
            best = isa
        return best


@dataclass(frozen=True)
class Target:
    """What kernels are compiled for. `llvm_cpu` and `llvm_features` go into LLVM's target machine."""

    isa: Isa
    avx512_bf16: bool
    llvm_cpu: str
    llvm_features: str

    @property
    def vector_bytes(self) -> int:
        """Bytes of the widest vector register."""
        return {Isa.PORTABLE: 16, Isa.AVX2: 32, Isa.AVX512: 64, Isa.AMX: 64}[self.isa]

    def key_parts(self) -> tuple[tuple[str, str], ...]:
        """(name, value) pairs for the recipe key."""
        return (
            ("target.isa", self.isa.name.lower()),
            ("target.cpu", self.llvm_cpu),
            ("target.features", self.llvm_features),
        )


def _tiles_allowed() -> bool:
    """Asks the system for this process's use of AMX tile data, without which the first tile instruction is fatal.

    Linux's arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), for all threads; other systems are not asked.
    """
    import ctypes
    import sys

    if sys.platform != "linux":
        return False
    system_call, request, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(system_call, request, tile_data) == 0


@functools.cache
def host() -> Host:
    """The host CPU; asked once, because it does not change."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    present = frozenset(name for name, has in features.items() if has)
    if "amx-tile" in present and not _tiles_allowed():
        present = frozenset(name for name in present if not name.startswith("amx-"))
    return Host(platform.machine(), binding.get_host_cpu_name(), present, frozenset(features) - present)


def target(cpu: Host | None = None) -> Target:
    """The target for `cpu` (by default the host) under HABANA_SIM_ISA as it is now.

    Raises IsaError when the setting asks for more than the CPU has.
    """
    cpu = cpu or host()
    wanted = settings.HABANA_SIM_ISA.get()
    if wanted == "auto":
        return _native(cpu)
    isa = Isa[wanted.upper()]
    if isa > cpu.isa:
        missing = sorted(feature for level in Isa if level <= isa for feature in _REQUIRED[level] - cpu.features)
        raise IsaError(
            f"HABANA_SIM_ISA={wanted}, but this CPU ({cpu.name}) lacks {', '.join(missing)}: "
            f"use auto, or at most {cpu.isa.name.lower()}"
        )
    if isa is cpu.isa and isa is not Isa.PORTABLE:
        return _native(cpu)
    if cpu.architecture not in ("x86_64", "AMD64"):
        return Target(isa, False, "generic", "")
    bf16 = isa is Isa.AVX512 and "avx512bf16" in cpu.features
    extra = "-prefer-256-bit" if isa is Isa.AVX512 else ""
    return Target(isa, bf16, _LEVELS[isa], f"{extra},+avx512bf16" if bf16 else extra)


def _native(cpu: Host) -> Target:
    """All that `cpu` has, in a stable order; 512-bit vectors are used where they exist."""
    isa = cpu.isa
    features = [f"+{feature}" for feature in sorted(cpu.features)]
    features += [f"-{feature}" for feature in sorted(cpu.lacks)]
    if isa >= Isa.AVX512:
        features.append("-prefer-256-bit")
    bf16 = isa >= Isa.AVX512 and "avx512bf16" in cpu.features
    return Target(isa, bf16, cpu.name, ",".join(features))
