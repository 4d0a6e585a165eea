"""The least time of a kernel on a card: its roofline, from published peaks alone.

    at least = max(operations / peak of its engine, bytes / peak bandwidth of the HBM)

A lower bound and no estimate: no card reaches its peaks, a contraction in fp32 runs below the bf16 peak used here, and
launch costs are left out. Where no peak of an engine was published (both of Gaudi, the TPC of Gaudi2), its bytes alone
bound a kernel. Every tensor is taken to pass through HBM whole: with data in SRAM from one kernel to the next, or a
gather of a few rows of a table, a kernel may be faster.
"""

from __future__ import annotations

from habana_tf.hardware.chips import Chip


def at_least(chip: Chip, engine: str, flops: object, nbytes: object) -> float | None:
    """Seconds that a kernel takes at least on `chip`.

    engine: "MME" or "TPC". flops, nbytes: as `compiler.describe` counts them; None is the answer where they are no
    numbers, because the sizes are open. (Operations that follow a contraction are counted with it though the TPC does
    them: writing the result alone takes longer.) Sources of the peaks: see `Chip`.
    """
    if not isinstance(flops, int) or not isinstance(nbytes, int):
        return None
    peak = {"MME": chip.published_mme_flops, "TPC": chip.published_tpc_flops}[engine]
    return max(nbytes / chip.published_hbm_bandwidth, flops / peak if peak else 0.0)


def said(chip: Chip) -> str:
    """The peaks that `at_least` goes by, as a sentence for people."""
    engines = [("MME", chip.published_mme_flops), ("TPC", chip.published_tpc_flops)]
    peaks = [f"its operations at {peak / 1e12:g} TFLOPS ({engine})" for engine, peak in engines if peak]
    bandwidth = f"its bytes at {chip.published_hbm_bandwidth / 1e12:g} TB/s"
    longer = f"the longer of {' or '.join(peaks)} and {bandwidth}" if peaks else bandwidth
    return f"at least, with every tensor in HBM: {longer}, published peaks of {chip.name}; no estimate"
