"""Predictions of what others may measure or publish, with all settings: a table of `docs/fidelity.md`.

python -m tests.card.model.to_check        writes it
"""

from __future__ import annotations

from collections.abc import Iterator

import habana_tf
from habana_tf.card.model.matrix_time import Product, matrix_time
from habana_tf.card.model.network import sum_seconds
from habana_tf.card.model.parameters import LATEST_FITTED
from habana_tf.dry_run.predict import costed, foreseen
from habana_tf.hardware.boxes import box, boxes
from habana_tf.hardware.chips import chips
from habana_tf.tensorflow.dry_run.traced import as_specs
from habana_tf.tensorflow.dry_run.weightless import without_values
from tests.card.model.fidelity_page import put
from tests.card.model.swin import SWIN_T
from tests.card.model.transformers import ALL

Setting = tuple[str, int, int, str, int, str]
"""network, batch, accumulate, box, cards, release."""
NETWORKS = ALL | {"Swin-T": SWIN_T}


def settings() -> Iterator[Setting]:
    for name in ("HLS-1", "HLS-1H", "DL1"):
        for cards in (8, 16, 32, 64, 128, 256):
            yield "ResNet50", 256 if cards == 8 else 128, 1, name, cards, "1.1"
    yield "ResNeXt101-32x4d", 128, 1, "HLS-1", 8, "1.0"
    yield "SSD-ResNet34", 128, 1, "HLS-1", 1, "1.0"
    for cards in (8, 16, 32, 64, 128, 256):
        yield "BERT-large-512", 14, 2, "HLS-1H", cards, "1.1"
    for cards in (8, 64):
        for release in ("1.4", "1.7", "1.10"):
            yield "BERT-large-512", 28, 1, "HLS-Gaudi2", cards, release
    for name, of in (("HLS-1", (24, 24)), ("HLS-Gaudi2", (32, 64))):
        yield "BERT-base-384", of[0], 1, name, 1, "1.15"
        yield "RoBERTa-base-384", of[1], 1, name, 8, "1.15"
    for name in ("HLS-1", "HLS-Gaudi2", "HLB-325"):
        yield "GPT-2", 16, 1, name, 8, "1.15"
    yield "ViT-B/16-224", 96, 1, "HLS-Gaudi2", 8, "1.15"
    for name in ("HLS-1", "HLS-Gaudi2"):
        yield "Swin-T", 64, 1, name, 1, "1.15"


def networks_table() -> list[str]:
    chip_of = {each.name: each.chip for each in boxes()}
    lines = ["| network | box | cards | batch per card | release | examples/s | range | bound by |",
             "|---|---|--:|--:|---|--:|--:|---|"]  # fmt: skip
    known: dict[tuple[str, int], object] = {}
    for network, batch, accumulate, name, cards, release in settings():
        if (network, batch) not in known:
            with without_values():
                model = NETWORKS[network].build()
            _, known[network, batch] = foreseen(model, as_specs(NETWORKS[network].inputs(batch)), "bf16", None)
        found = costed(known[network, batch], batch, chip_of[name], cards, "bf16", box=name, release=release,
                       accumulate=accumulate)  # fmt: skip
        times = f"{accumulate} x {batch}" if accumulate > 1 else str(batch)
        low, high = found.range
        lines.append(f"| {network} | {name} | {cards} | {times} | {release} | {found.examples_per_second:,.0f} | "
                     f"{low:,.0f} to {high:,.0f} | {found.bound} |")  # fmt: skip
    return lines


def products_table() -> list[str]:
    """Single products from HBM and back to it, and sums over a box."""
    named = [each.name for each in chips()]
    lines = ["| what | " + " | ".join(named) + " |", "|---|" + "--:|" * len(named)]
    for side in (4096, 8192, 16384):
        cells = []
        for each in chips():
            p = Product(1, side, side, side, 2, 2, (2 * side, 2 * side))
            memory = 3 * 2 * side * side / each.hbm_bandwidth
            longest, second = sorted((matrix_time(each, p).seconds, memory), reverse=True)
            seconds = longest + (1 - LATEST_FITTED.hidden) * second + LATEST_FITTED.launch
            cells.append(f"{p.flops / seconds / 1e12:,.1f} TFLOP/s")
        lines.append(f"| product of {side:,} x {side:,}, bf16 | " + " | ".join(cells) + " |")
    sums = [sum_seconds(each, box(each), 256 << 20, 8, LATEST_FITTED.launch) * 1e3 for each in chips()]
    lines.append("| sum of 256 MiB over 8 cards | " + " | ".join(f"{ms:.2f} ms" for ms in sums) + " |")
    return lines


if __name__ == "__main__":
    habana_tf.load_habana_module()
    put({"to check": networks_table(), "single": products_table()})
