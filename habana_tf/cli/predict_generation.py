"""`habana-tf predict-generation`: how fast a language model would answer on real cards, and how large a batch fits."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from typing import Any

from habana_tf.cli import scripts
from habana_tf.cli.numbers import whole
from habana_tf.cli.output import CommandError, print_report

_EPILOG = """\
examples:
  habana-tf predict-generation --input-length 128 --output-length 128 llama-7b/config.json
  habana-tf predict-generation --chip gaudi3 --precision fp8 --batch 64 --buckets 128 \\
      --input-length 2048 --output-length 2048 llama-7b
  habana-tf predict-generation --tp 8 --precision fp8 --batch 1 --batch-buckets 2,4,8,16 --buckets 128 \\
      --input-length 2048 --output-length 128 --json llama-70b > prediction.json

MODEL is the configuration of a causal language model of transformers: its file, the folder with it, or a name that
AutoConfig.from_pretrained knows. No weights are read, and nothing runs: the forward passes of the prompt and of a token
are recorded as the card would get them.
"""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("--input-length", type=whole(1), required=True, metavar="N", help="tokens of a prompt")
    parser.add_argument("--output-length", type=whole(1), required=True, metavar="N", help="tokens of an answer")
    parser.add_argument("--batch", type=whole(1), default=1, metavar="N", help="sequences at once (default: 1)")
    parser.add_argument("--tp", type=whole(1), default=1, metavar="N", help="cards that share the weights (default: 1)")
    parser.add_argument("--precision", choices=["bf16", "fp8", "fp32"], default="bf16", help="(default: bf16)")
    parser.add_argument("--kv-precision", choices=["bf16", "fp8"], help="of keys and values (default: --precision)")
    parser.add_argument("--kv-cache", choices=["static", "growing"], default="static", help="(default: static)")
    parser.add_argument(
        "--buckets", type=_numbers, metavar="N,..", help="lengths to pad to: a step, or several lengths"
    )
    parser.add_argument("--batch-buckets", type=_numbers, metavar="N,..", help="other batches that are compiled for")
    parser.add_argument(
        "--batch-split", type=whole(1), default=1, metavar="N", help="parts of prompts in turns, by layer (default: 1)"
    )
    parser.add_argument("--attention", default="fused", help="fused, or transformers' sdpa, eager (default: fused)")
    parser.add_argument("--chip", choices=["gaudi", "gaudi2", "gaudi3"], help="default: what HABANA_SIM_CHIP says")
    scripts.declare_cards(parser)
    parser.add_argument("model", metavar="MODEL", help="a configuration of transformers")
    parser.set_defaults(run=_run)


def _numbers(text: str) -> list[int]:
    each: Callable[[str], int] = whole(1)
    return [each(part) for part in text.split(",")]


def _run(arguments: argparse.Namespace) -> int:
    found: Any
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = _predicted(arguments)
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "transformers"):
            raise
        raise CommandError(f"this needs {error.name}: pip install torch transformers", 2) from error
    except OSError as error:
        raise CommandError(f"no configuration {arguments.model!r}: {error}", 2) from error
    except ValueError as error:
        raise CommandError(str(error), 2) from error
    return print_report(arguments, found)


def _predicted(arguments: argparse.Namespace) -> Any:
    from transformers import AutoConfig

    from habana_tf.dry_run.generation import predict_generation

    buckets = arguments.buckets[0] if arguments.buckets and len(arguments.buckets) == 1 else arguments.buckets
    return predict_generation(
        AutoConfig.from_pretrained(arguments.model), arguments.input_length, arguments.output_length, arguments.batch,
        arguments.tp, arguments.precision, arguments.kv_cache, arguments.kv_precision, buckets,
        arguments.batch_buckets or (), arguments.attention, arguments.chip, arguments.box, arguments.release,
        arguments.batch_split,
    )  # fmt: skip
