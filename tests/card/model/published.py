"""Published training throughput on real cards, that the model's parameters are fitted to.

All in bf16 with fp32 accumulation, TensorFlow, a whole training step with its optimizer. Sources: README tables of
Habana's reference models; results of MLPerf Training, computed from time to train and the number of examples.
"""

from __future__ import annotations

from dataclasses import dataclass

README, MLPERF_1_1, MLPERF_2_0 = "Habana's reference models", "MLPerf Training v1.1", "MLPerf Training v2.0"

PACKED = 2.0
"""Samples of the packed data set of MLPerf's BERT in one sequence of 512 tokens: unpacked, what was published for Gaudi
would be above the chip's peak."""


@dataclass(frozen=True)
class Row:
    """figure: examples per second of all cards. batch: per card."""

    network: str
    chip: str
    cards: int
    batch: int
    figure: float
    source: str


ROWS = (
    Row("ResNet50", "gaudi", 1, 256, 1690, README),
    Row("ResNet50", "gaudi", 8, 256, 12_950, README),
    Row("ResNet50", "gaudi", 8, 256, 13_432, MLPERF_1_1),
    Row("ResNet50", "gaudi", 16, 256, 24_806, MLPERF_1_1),
    Row("ResNet50", "gaudi2", 8, 256, 40_982, MLPERF_2_0),
    Row("BERT-large-512", "gaudi", 8, 8, 544 / PACKED, MLPERF_1_1),
    Row("BERT-large-512", "gaudi2", 8, 24, 2364 / PACKED, MLPERF_2_0),
)
"""The batch of the BERT rows was not published: what three quarters of a Gaudi's memory hold, and three times that on
Gaudi2, which has three times the memory."""
