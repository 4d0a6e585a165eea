"""The Gaudi chips that can be simulated, with the numbers of the real ones.

Sources, per field: HAL is Habana's open graph compiler (`hal_reader/gaudi{1,2,3}/hal.h`, MIT); SMI
is the `hl-smi` output of real machines; PRESS is Intel's published data.

Invariants: sizes are bytes, clocks hertz, bandwidths bytes per second; nothing here is fitted to throughput.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from habana_tf import settings

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_MHZ, _GB, _TERA = 10**6, 10**9, 10**12

MEMORY_SHARE = 0.85
"""Of a memory's peak that a program gets: the efficiency that HAL counts with for the HBM of Gaudi2 and Gaudi3 (it
writes the product in GiB/s), taken for all memories of all chips."""


@dataclass(frozen=True)
class Chip:
    """One generation of Gaudi."""

    name: str
    """As in HABANA_SIM_CHIP."""
    device_type: str
    """What `habana_device.get_type()` returns."""
    product: str
    """Name of the card (SMI)."""
    hbm_bytes: int
    """Device memory as `hl-smi` reports it (SMI: 32768, 98304 and 131072 MiB)."""
    published_hbm_bandwidth: int
    """Peak bandwidth of the device memory (PRESS: 1, 2.45 and 3.67 TB/s)."""
    published_mme_flops: int | None
    """Peak of the matrix engines in bf16, floating-point operations per second (PRESS: 432 TFLOPS for Gaudi2, 1835 for
    Gaudi3); None where none was published."""
    published_tpc_flops: int | None
    """Peak of the vector processors in bf16 (PRESS: 28.7 TFLOPS for Gaudi3); None where none was published."""
    sram_bytes: int
    """On-chip memory (HAL)."""
    sram_bandwidth: int
    """Peak bandwidth of the on-chip memory (HAL: 1,045 and 6,554 GB/s; PRESS: 19.2 TB/s for Gaudi3)."""
    sram_reserved_bytes: int
    """Part of the SRAM kept for collectives (HAL); zero where the HAL has none."""
    mme_macs_per_cycle_bf16: int
    """bf16 multiply-adds per cycle of all matrix engines together (HAL: sizes of the arrays)."""
    mme_float8_rate: int
    """Multiply-adds per cycle in 8 bits for each in bf16 (PRESS: 865 TFLOPS for Gaudi2, 1835 for Gaudi3; Gaudi has no
    8-bit floats)."""
    float8_e4m3_largest: float | None
    """The largest number of float8_e4m3fn; None where the chip has no 8-bit floats (neural_compressor,
    `fp8_quant/_core/fp_utils.py`: 240 and 448)."""
    mme_min_cycles: int
    """Least cycles per output tile, the roll-up (HAL)."""
    mme_least_side: int
    """Rows or columns of the narrowest arrangement of the arrays (HAL: geometries of 256x64, 128x128 and 64x256 on
    Gaudi, of 1024x128 to 128x1024 on Gaudi2; the arrays of Gaudi3 are taken to be arranged as those of Gaudi2)."""
    mme_splits: int
    """Into how many parts the arrays may split the sum of one product, or a batch of products, each on arrays of its
    own (HAL: the concurrency of Gaudi2; on Gaudi two small products of a batch share them, and no sum is split)."""
    mme_clock: int
    """Clock of the matrix engines (HAL; Gaudi3's cards report 1,600 MHz too, its published peak would need 1,750)."""
    mme_sustained: float
    """Share of the peak at its clock that the best products reach on real cards, where it is far from all: 74% in bf16
    and 77% in 8 bits on Gaudi3, 97% on Gaudi2 (stas00/ml-engineering, release 1.21)."""
    tpc_engines: int
    """Vector processors (HAL)."""
    tpc_vector_bytes: int
    """Width of one vector (HAL)."""
    tpc_clock: int
    """Clock of the vector processors (HAL for Gaudi; as Gaudi2's and Gaudi3's cards report it)."""
    cache_line_bytes: int
    """Alignment that memory accesses should have (HAL)."""
    power_cap_watts: int
    """Power limit (SMI)."""
    idle_watts: int
    """Power of an idle card (SMI)."""
    idle_celsius: int
    """Temperature of an idle card (SMI)."""
    idle_memory_bytes: int
    """Memory in use on an idle card, by its firmware (SMI)."""
    ports: int
    """Network ports (PRESS)."""
    port_bandwidth: int
    """Of one port in one direction (PRESS: 100, 100 and 200 Gb/s)."""
    pcie_bandwidth: int
    """Between host and card in one direction (PRESS: PCIe 4.0, 4.0 and 5.0 with 16 lanes)."""
    external_ports: tuple[int, ...]
    """Of these, the ones that leave the machine (PRESS: three on each chip; SMI tells which on Gaudi2, and the same
    are taken for Gaudi3; for Gaudi the last three are)."""

    @property
    def hbm_bandwidth(self) -> int:
        """Of the device memory as a program sees it, bytes per second."""
        return round(MEMORY_SHARE * self.published_hbm_bandwidth)

    @property
    def sram_read_bandwidth(self) -> int:
        """Of the on-chip memory as the matrix engines see it, bytes per second."""
        return round(MEMORY_SHARE * self.sram_bandwidth)

    @property
    def mme_fed(self) -> bool:
        """Whether the on-chip memory gives the arrays what they read, rows and columns of bf16 in each cycle, in the
        arrangement that the compiler takes first: Gaudi's 256 x 64 would read 1.15 TB/s of 0.89."""
        wide = self.mme_macs_per_cycle_bf16 // self.mme_least_side
        return 2 * (wide + self.mme_least_side) * self.mme_clock <= self.sram_read_bandwidth

    @property
    def mme_held_back(self) -> bool:
        """Whether even the best products stay far from the peak: `mme_sustained`."""
        return self.mme_sustained < 1

    @property
    def peak_bf16_flops(self) -> float:
        """Peak bf16 matrix throughput, floating-point operations per second."""
        return 2.0 * self.mme_macs_per_cycle_bf16 * self.mme_clock


_FIELDS: dict[str, tuple[Any, Any, Any]] = {
    "name": ("gaudi", "gaudi2", "gaudi3"),
    "device_type": ("GAUDI", "GAUDI2", "GAUDI3"),
    "product": ("HL-205", "HL-225", "HL-325L"),
    "hbm_bytes": (32 * _GIB, 96 * _GIB, 128 * _GIB),
    "published_hbm_bandwidth": (1000 * _GB, 2450 * _GB, 3670 * _GB),
    "published_mme_flops": (None, 432 * _TERA, 1835 * _TERA),
    "published_tpc_flops": (None, None, 287 * _TERA // 10),
    "sram_bytes": (20 * _MIB, 48 * _MIB, 96 * _MIB),
    "sram_bandwidth": (1045 * _GB, 6554 * _GB, 19_200 * _GB),
    "sram_reserved_bytes": (320 * _KIB, 320 * _KIB, 0),
    "mme_macs_per_cycle_bf16": (4 * 64 * 64, 2 * 256 * 256, 8 * 256 * 256),
    "mme_float8_rate": (1, 2, 1),
    "float8_e4m3_largest": (None, 240.0, 448.0),
    "mme_min_cycles": (128, 256, 512),
    "mme_least_side": (64, 128, 128),
    "mme_splits": (1, 4, 8),
    "mme_clock": (1800 * _MHZ, 1650 * _MHZ, 1600 * _MHZ),
    "mme_sustained": (1.0, 1.0, 0.76),
    "tpc_engines": (8, 24, 64),
    "tpc_vector_bytes": (256, 256, 256),
    "tpc_clock": (1900 * _MHZ, 1800 * _MHZ, 1600 * _MHZ),
    "cache_line_bytes": (128, 128, 256),
    "power_cap_watts": (350, 600, 850),
    "idle_watts": (102, 74, 226),
    "idle_celsius": (35, 35, 36),
    "idle_memory_bytes": (512 * _MIB, 768 * _MIB, 672 * _MIB),
    "ports": (10, 24, 24),
    "port_bandwidth": (100 * _GB // 8, 100 * _GB // 8, 200 * _GB // 8),
    "pcie_bandwidth": (32 * _GB, 32 * _GB, 64 * _GB),
    "external_ports": ((7, 8, 9), (8, 22, 23), (8, 22, 23)),
}
"""Of each chip, oldest first."""
_CHIPS = tuple(Chip(**dict(zip(_FIELDS, column, strict=True))) for column in zip(*_FIELDS.values(), strict=True))


def chips() -> tuple[Chip, ...]:
    """All chips, oldest first."""
    return _CHIPS


def chip(name: str | None = None) -> Chip:
    """The chip called `name`, by default the one HABANA_SIM_CHIP names now.

    Raises SettingError for a wrong setting and ValueError for a wrong `name`.
    """
    wanted = settings.HABANA_SIM_CHIP.get() if name is None else name.lower()
    for candidate in _CHIPS:
        if candidate.name == wanted:
            return candidate
    raise ValueError(f"no chip is called {name!r}: use one of {', '.join(each.name for each in _CHIPS)}")
