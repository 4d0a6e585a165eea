"""The host CPU that runs compiled kernels, and the code-generation target made of it.

What: `host()` has the features of this CPU; `target()` has those that kernels may use: all of the host's, capped by
HABANA_SIM_ISA, with the CPU name and feature string for LLVM.

Why one place: instruction sets are named here only. The compiler asks a `Target` for its capabilities (vector bytes,
register tiles, kind of bf16 products, tile engine). Machine code is only valid on a CPU with its instructions, so the
target is part of the recipe key.

Invariants: a target never has an instruction that the host lacks; asking for one is an error. Where a CPU has two ways,
the faster one is measured (`calibration`), and only when it is needed.
"""

from __future__ import annotations

import functools
import itertools
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from habana_tf import settings
from habana_tf.hardware.calibration import Answer, Products, bf16_products

BF16_PART = "target.bf16_products"
"""The part of the recipe key that says how products in bf16 are computed; only keys of programs with bf16 have it."""


class Isa(Enum):
    """Instruction sets."""

    PORTABLE = "portable"
    """Vectors of 16 bytes and nothing else that would not be on every CPU; products may be rounded before they are
    added."""
    AVX2 = "avx2"
    """AVX2 with FMA."""
    AVX512 = "avx512"
    """AVX-512 F, BW, DQ and VL."""
    AMX = "amx"
    """AMX tiles with bf16 products, beside AVX-512."""
    NEON = "neon"
    """Advanced SIMD with its 32 registers and FMA."""


ARCHITECTURES: Mapping[str, tuple[Isa, ...]] = {
    "x86_64": (Isa.PORTABLE, Isa.AVX2, Isa.AVX512, Isa.AMX),
    "aarch64": (Isa.PORTABLE, Isa.NEON),
}
"""By the name of an architecture (`platform.machine`) its instruction sets; each includes those before it."""
_REQUIRED: dict[Isa, frozenset[str]] = {
    Isa.PORTABLE: frozenset(),
    Isa.AVX2: frozenset({"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}),
    Isa.AVX512: frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    Isa.AMX: frozenset({"amx-tile", "amx-bf16"}),
    Isa.NEON: frozenset(),  # all of Linux on AArch64 assumes it
}
# LLVM's names of the x86-64 micro-architecture levels have exactly the features required above.
_LEVELS = {Isa.PORTABLE: "x86-64", Isa.AVX2: "x86-64-v3", Isa.AVX512: "x86-64-v4", Isa.NEON: "generic"}
_WIDE = frozenset({Isa.AVX512, Isa.AMX})
"""Those with vectors of 64 bytes, and masks for the lanes of all."""
_MASKED = _WIDE | {Isa.AVX2}
"""Those that load and store some lanes of a vector, and store one past the caches."""


class IsaError(RuntimeError):
    """HABANA_SIM_ISA asks for instructions that this CPU does not have."""


@dataclass(frozen=True)
class Cpu:
    """This machine's CPU, in LLVM's words."""

    architecture: str
    name: str
    features: frozenset[str]
    lacks: frozenset[str] = frozenset()
    """Features LLVM knows and this CPU has not; a virtual machine may lack what its CPU's name implies."""

    @property
    def instruction_sets(self) -> tuple[Isa, ...]:
        """Those of this CPU, the best one last."""
        known = ARCHITECTURES.get(self.architecture, (Isa.PORTABLE,))
        return tuple(itertools.takewhile(lambda isa: _REQUIRED[isa] <= self.features, known))

    @property
    def isa(self) -> Isa:
        """The best instruction set of this CPU."""
        return self.instruction_sets[-1]


@dataclass(frozen=True)
class TileEngine:
    """Registers of whole tiles: `rows` of `row_bytes` each, and an instruction that adds the products of two tiles of
    bf16 pairs to a tile of fp32 sums."""

    rows: int
    row_bytes: int


_TILES: dict[Isa, Mapping[int, int]] = {
    Isa.PORTABLE: {1: 8, 2: 5, 3: 3},
    Isa.AVX2: {1: 10, 2: 6, 3: 4},
    Isa.AVX512: {1: 24, 2: 14, 3: 9, 4: 6},
    Isa.AMX: {1: 24, 2: 14, 3: 9, 4: 6},
    Isa.NEON: {1: 24, 2: 14, 3: 9, 4: 6},
}


_STRIDED: Mapping[str, float] = dict.fromkeys(
    ("skylake-avx512", "cascadelake", "cooperlake", "icelake-server", "sapphirerapids", "emeraldrapids",
     "graniterapids"), 1.5,
)  # fmt: skip
"""By LLVM's name of a CPU, how much longer a product takes whose rows are strided along the sum, by 1 to 12 KB. On a
server with two AVX-512 units a core such products did 98 to 120 GFLOP/s, contiguous ones 161. A CPU with AVX-512 where
that is no difference (117 and 116 GFLOP/s on Zen 4), or where nobody has measured it, is not in the table."""
_STRIDED_NARROW = 1.5
"""The same of CPUs with AVX2 only. Their register tiles have six rows, so that a line read gives six numbers, and the
six cycles of arithmetic on these do not hide reading it: on Zen 3, weight gradients of a BERT took 1.45 times as long,
of a vision transformer 1.64 times, of dense layers of 512 1.3 times."""


@dataclass(frozen=True)
class Target:
    """What kernels are compiled for, as capabilities; which instructions give them is known here only.

    `llvm_cpu` and `llvm_features` go into LLVM's target machine.
    """

    isa: Isa
    avx512_bf16: bool
    llvm_cpu: str
    llvm_features: str

    @property
    def instructions(self) -> str:
        """The name of the instruction set, for people and the key."""
        return self.isa.value

    @property
    def architecture(self) -> str:
        """That of the CPUs that have these instructions. Portable code is for the architecture of this machine."""
        found = [name for name, sets in ARCHITECTURES.items() if self.isa in sets]
        return found[0] if len(found) == 1 else platform.machine()

    @property
    def triple(self) -> str | None:
        """LLVM's name of the architecture where it is another machine's, as in tests of its code. None: this one's."""
        return None if self.architecture == platform.machine() else f"{self.architecture}-unknown-linux-gnu"

    @property
    def vector_bytes(self) -> int:
        """Bytes of the widest vector register."""
        return 64 if self.isa in _WIDE else 32 if self.isa is Isa.AVX2 else 16

    @property
    def lanes(self) -> int:
        """fp32 numbers in a vector register."""
        return self.vector_bytes // 4

    @property
    def vector_registers(self) -> int:
        """How many of them there are."""
        return 32 if self.isa in _WIDE or self.isa is Isa.NEON else 16

    @property
    def register_tiles(self) -> Mapping[int, int]:
        """For each number of vectors that a tile of sums may be wide, the most rows that stay in registers, beside a
        row of b and an element of a."""
        return _TILES[self.isa]

    @property
    def strided_rows(self) -> float:
        """How much longer a product takes that reads rows far apart along the sum, not one after the other."""
        return _STRIDED.get(self.llvm_cpu, _STRIDED_NARROW if self.isa is Isa.AVX2 else 1.0)

    @property
    def masked_memory(self) -> bool:
        """Whether some lanes of a vector are loaded or stored in one instruction; elsewhere each lane is a branch."""
        return self.isa in _MASKED

    @property
    def masks_halves(self) -> bool:
        """The same of lanes of 8 and 16 bits."""
        return self.isa in _WIDE

    @property
    def widens_in_copies(self) -> bool:
        """Whether products of bf16 are faster on operands that were copied in fp32 than on such that are widened when
        they are read: register tiles are small then, and few multiply-adds stand beside the widening."""
        return self.isa is Isa.AVX2

    @property
    def stores_past_caches(self) -> bool:
        """Whether a vector can be stored without its line of memory being read before: by a non-temporal store, after
        which the function ends with a fence of x86 (see `emit.Function`)."""
        return self.isa in _MASKED

    @property
    def converts_float16(self) -> bool:
        """Whether an instruction makes fp32 of a vector of float16; elsewhere it is a call for each number."""
        return self.isa is not Isa.PORTABLE

    @property
    def rounds_to_bf16(self) -> bool:
        """Whether one instruction rounds a vector of fp32 to bf16."""
        return self.avx512_bf16

    @property
    def multiplies_bf16_pairs(self) -> bool:
        """Whether one instruction adds the products of two pairs of bf16 to each lane of fp32, be it fast or slow."""
        return self.avx512_bf16

    @property
    def tile_engine(self) -> TileEngine | None:
        """What multiplies tiles of bf16 pairs; it is taken wherever a product fits it."""
        return TileEngine(16, 64) if self.isa is Isa.AMX else None

    def bf16_answer(self) -> Answer:
        """How products of bf16 that the tile engine does not take are computed, and why."""
        if not self.multiplies_bf16_pairs:
            return Answer("widen", "this target cannot multiply pairs")
        return bf16_products(self.llvm_cpu, self.llvm_features)

    @property
    def bf16_products(self) -> Products:
        """How products of bf16 are computed that the tile engine does not take. "dot": pairs of neighbours along the
        sum by one instruction. "widen": in fp32, which bf16 is made when it is copied or read. Of a CPU that can do
        both, it is the faster way."""
        return self.bf16_answer().products


def any_cpu(isa: Isa, bf16: bool = False) -> Target:
    """Any CPU with these instructions."""
    extra = "-prefer-256-bit" if isa is Isa.AVX512 else ""
    return Target(isa, bf16, _LEVELS[isa], f"{extra},+avx512bf16" if bf16 else extra)


def _tiles_allowed() -> bool:
    """Asks the system for this process's use of AMX tile data, without which the first tile instruction is fatal.

    Linux's arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), for all threads.
    """
    import ctypes

    system_call, request, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(system_call, request, tile_data) == 0


@functools.cache
def host() -> Cpu:
    """The host CPU; asked once, because it does not change."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    present = frozenset(name for name, has in features.items() if has)
    if "amx-tile" in present and not _tiles_allowed():
        present = frozenset(name for name in present if not name.startswith("amx-"))
    return Cpu(platform.machine(), binding.get_host_cpu_name(), present, frozenset(features) - present)


def target(cpu: Cpu | None = None) -> Target:
    """The target for `cpu` (by default the host) under HABANA_SIM_ISA as it is now. Raises IsaError when that asks for
    more than the CPU has."""
    return _capped(cpu or host(), settings.HABANA_SIM_ISA.get())


@functools.lru_cache(maxsize=8)
def _capped(cpu: Cpu, wanted: str) -> Target:
    """The target for `cpu` under a value of HABANA_SIM_ISA. Raises IsaError."""
    if wanted == "auto":
        return _native(cpu)
    isa = Isa(wanted)
    if isa not in cpu.instruction_sets:
        raise IsaError(
            f"HABANA_SIM_ISA={wanted}, but this CPU ({cpu.name}) {_missing(cpu, isa)}: "
            f"use auto, or at most {cpu.isa.value}"
        )
    if isa is cpu.isa and isa is not Isa.PORTABLE:
        return _native(cpu)
    if cpu.architecture != "x86_64":
        return Target(isa, False, "generic", "")
    return any_cpu(isa, bf16=isa is Isa.AVX512 and "avx512bf16" in cpu.features)


def _missing(cpu: Cpu, isa: Isa) -> str:
    """Why a CPU has not these instructions."""
    known = ARCHITECTURES.get(cpu.architecture, ())
    if isa not in known:
        return f"is of {cpu.architecture}, which has no {isa.value}"
    needed = frozenset[str]().union(*(_REQUIRED[level] for level in known[: known.index(isa) + 1]))
    return f"lacks {', '.join(sorted(needed - cpu.features))}"


def _native(cpu: Cpu) -> Target:
    """All that `cpu` has, in a stable order; 512-bit vectors are used where they exist."""
    isa = cpu.isa
    features = [f"+{feature}" for feature in sorted(cpu.features)]
    features += [f"-{feature}" for feature in sorted(cpu.lacks)]
    if isa in _WIDE:
        features.append("-prefer-256-bit")
    bf16 = isa in _WIDE and "avx512bf16" in cpu.features
    return Target(isa, bf16, cpu.name, ",".join(features))
