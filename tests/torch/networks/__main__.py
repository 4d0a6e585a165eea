"""Prints the comparison of all networks: in each way, for one card and two, in fp32 and bf16, beside PyTorch's CPU.

    python -m tests.torch.networks --steps 5 50 --networks lstm

The largest difference of a loss and of a weight, each with what is allowed: PyTorch's largest from itself, four times.
Of bf16 that is PyTorch's distance under autocast from its fp32, twice.
"""

from __future__ import annotations

import argparse
import itertools
import sys

import torch

from tests.torch.networks import cards, comparing
from tests.torch.networks.comparing import Compared
from tests.torch.networks.models import NETWORKS

_HEAD = ("network", "way", "cards", "type", "steps", "beside", "loss", "allowed", "weights", "allowed", "near")


def _line(each: Compared) -> str:
    numbers = each.losses, each.most_losses, each.weights, each.most_weights
    words = (each.network, each.way, each.cards, each.precision, each.steps, each.beside)
    marks = (*words, *(f"{n:.1e}" for n in numbers), "yes" if each.near else "NO")
    return f"| {' | '.join(map(str, marks))} |"


def _of_two(found: list[Compared]) -> list[Compared]:
    """Of both processes' comparisons that with the larger difference of losses: their weights are the same."""
    half = len(found) // 2
    return [max(pair, key=lambda each: each.losses) for pair in zip(found[:half], found[half:], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torch.networks", description=__doc__)
    parser.add_argument("--networks", nargs="+", default=[*NETWORKS], choices=[*NETWORKS])
    parser.add_argument("--steps", nargs="+", type=int, default=[5, 50])
    parser.add_argument("--ways", nargs="+", default=["lazy", "compiled"], choices=comparing.WAYS)
    options = parser.parse_args()
    print(
        f"PyTorch {torch.__version__.partition('+')[0]}\n\n| {' | '.join(_HEAD)} |\n|{'---|' * len(_HEAD)}", flush=True
    )
    near = True
    for network, way in itertools.product(options.networks, options.ways):
        found = [each for steps in options.steps for each in comparing.compare(network, way, steps)]
        found += comparing.compare(network, way, min(options.steps), torch.bfloat16)
        found += _of_two(cards.compared([network], [way], options.steps))
        found += _of_two(cards.compared([network], [way], [min(options.steps)], "torch.bfloat16"))
        print("\n".join(map(_line, found)), flush=True)
        near = near and all(each.near for each in found)
    sys.exit(not near)


if __name__ == "__main__":
    main()
