"""docs/reports.md: every report as it is printed in 80 and in 140 columns, of one program that is run for it.

`make docs-reports` writes the page. Its numbers are those of the machine that wrote it; a test runs the program again
and compares what does not depend on a machine (`words`).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.child import environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reports.md"
WIDTHS = (80, 140)
PROGRAM = """\
import numpy as np
import tensorflow as tf
import habana_tf

habana_tf.load_habana_module()
conv, dense = tf.keras.layers.Conv2D, tf.keras.layers.Dense
net = tf.keras.Sequential(
    [
        tf.keras.Input((28, 28, 1)),
        conv(32, 3, activation="relu", name="first"),
        conv(64, 3, strides=2, activation="relu", name="second"),
        tf.keras.layers.Flatten(),
        dense(128, activation="relu", name="hidden"),
        dense(10, name="out"),
    ],
    name="net",
)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
net.compile("adam", loss, metrics=["accuracy"])
x, y = np.random.rand(600, 28, 28, 1).astype("float32"), np.random.randint(0, 10, 600)
net.fit(x, y, batch_size=256, epochs=2, verbose=0)  # the last batch has 88


@tf.function
def kinds_of(labels):
    found, _ = tf.unique(labels)  # no card can: its result's size depends on values
    return tf.reduce_sum(tf.nn.relu(tf.cast(found, tf.float32) * 2.0 - 1.0))


kinds_of(tf.constant(y))
"""
REPORTS = (
    ("habana_tf.placement_report()", "What runs on the card, what does not, and why ([more](placement.md))."),
    ("habana_tf.recompilation_report()", "What was compiled again, which size was another, and what would help "
     "([more](recompilations.md))."),
    ("habana_tf.memory_report()", "What holds the card's memory, now and at the peak ([more](guides/memory.md))."),
    ("habana_tf.card_time_report()", "What a card would have taken for the launches of this run, and what the host did "
     "between them ([more](card-time.md#while-a-program-runs))."),
    ("habana_tf.plan(net, x[:256], y[:256], target='1000000 examples/s')", "Which cards reach a rate or a time "
     "([more](guides/plan.md))."),
    ("habana_tf.predict(net, x[:256], y[:256])", "How long a step would take on real cards, before anything is trained "
     "([more](card-time.md#before-anything-runs))."),
    ("habana_tf.compare(net, x[:256], y[:256], chips=['gaudi2', 'gaudi3'], cards=[1, 8])", "The same for several chips "
     "and numbers of cards, a row each."),
    ("habana_tf.explain(kinds_of, tf.constant(y))", "What would run where, without running it ([more](placement.md))."),
)  # fmt: skip
"""An expression of the program, and what its report is for."""
TOP = "habana-tf top"
NAMES = (*(expression for expression, _ in REPORTS), TOP)
_MARK = "\x1e"


_TOP = f"""
import os, subprocess, sys
for n in {WIDTHS}:
    words = [sys.executable, "-m", "habana_tf.cli", "top", "--once"]
    top = subprocess.Popen(words, env={{**os.environ, "COLUMNS": str(n)}}, stdout=subprocess.PIPE, text=True)
    while top.poll() is None:
        net.fit(x[:512], y[:512], batch_size=256, verbose=0)
    print({_MARK!r} + top.communicate()[0])
"""


def printed() -> dict[str, dict[int, str]]:
    """Expression or command to what it prints, by width. Runs the program, in a process of its own."""
    asks = [f"report = {expression}\nfor n in {WIDTHS}: print({_MARK!r} + report.text(n))" for expression, _ in REPORTS]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text("\n".join([PROGRAM, *asks, _TOP]))
        done = subprocess.run(
            [sys.executable, "train.py"], text=True, stdout=subprocess.PIPE, check=True, timeout=300, cwd=folder,
            env=environment(TF_CPP_MIN_LOG_LEVEL="3", HABANA_SIM_LOG="error"),
        )  # fmt: skip
    texts = [text.rstrip("\n") for text in done.stdout.split(_MARK)[1:]]
    rows = [texts[k : k + len(WIDTHS)] for k in range(0, len(texts), len(WIDTHS))]
    return {name: dict(zip(WIDTHS, row, strict=True)) for name, row in zip(NAMES, rows, strict=True)}


def page() -> str:
    """The whole page."""
    found = printed()
    parts = [
        "# All reports, as they are printed",
        "Each report is printed as wide as the terminal (here 80 and 140 columns; in a file 120), is\na table in a "
        "notebook, and has `to_dict()` and `to_json()`. All are of this program, `train.py`:",
        f"```python\n{PROGRAM}```",
    ]
    for expression, what in REPORTS:
        parts += [f"## {expression.partition('(')[0]}", what, f"```python\nprint({expression})\n```"]
        parts += _blocks(found[expression])
    parts += [f"## {TOP}", "What the cards of this machine do while programs train; `--help` says what is counted.",
              *_blocks(found[TOP])]  # fmt: skip
    parts.append("`make docs-reports` writes this page; what is numbers in it differs from machine to machine.")
    return "\n\n".join(parts) + "\n"


def _blocks(found: dict[int, str]) -> list[str]:
    return [part for n in WIDTHS for part in (f"In {n} columns:", f"```text\n{found[n]}\n```")]


def shown(text: str) -> dict[str, dict[int, str]]:
    """`printed` as it stands on a page."""
    blocks = re.findall(r"^```text\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    rows = [blocks[k : k + len(WIDTHS)] for k in range(0, len(blocks), len(WIDTHS))]
    return {name: dict(zip(WIDTHS, row, strict=True)) for name, row in zip(NAMES, rows, strict=True)}


def words(text: str) -> Counter[str]:
    """How often a report has each word, without what differs between machines and runs: numbers with their units,
    names of clusters, curves, and what is at the peak."""
    text = re.sub(
        r"the peak is .*?(?=\nits workspace|\n\n)|[\d.]+ \w+ more were given out.*?(?=\n\n)", "", text, flags=re.DOTALL
    )
    text = re.sub(r"Single ops:.*(?:\n  .*)*", "", text)  # some are found in the cache or known
    text = re.sub(r"cluster_[0-9a-f]{12}", "cluster", text)
    text = re.sub(r"<?\d[\d,.]*(?: ?(?:ns|µs|ms|s|min|h|B|KiB|MiB|GiB)\b|%)?", "0", text)
    return Counter(re.findall(r"[^\s─▁▂▃▄▅▆▇█]+", text))


if __name__ == "__main__":
    PAGE.write_text(page())
