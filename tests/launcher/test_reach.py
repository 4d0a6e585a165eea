"""Hosts that answer no more: those are named that did answer, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from habana_tf.launcher.reach import answering
from tests.child import environment
from tests.launcher.hosts import hosts, needs_namespaces

ASK = """
import sys
from habana_tf.launcher.reach import Others

other, nobody = sys.argv[1:]
others = Others({other: [2, 3], nobody: [4], "no-such-name.invalid": [5]})
for line in sys.stdin:
    print(*others.lost(), sep="; ", flush=True)
"""


def test_a_refusal_is_an_answer() -> None:
    assert answering(["127.0.0.1"]) == {"127.0.0.1"}


@needs_namespaces
def test_only_a_host_that_answered_before_is_lost(tmp_path: Path) -> None:
    with hosts(2, tmp_path) as (machines, _):
        here, other = machines
        nobody = other.address.rsplit(".", 1)[0] + ".99"
        command = ["ip", "netns", "exec", here.namespace, sys.executable, "-c", ASK, other.address, nobody]
        asked = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert asked.stdin is not None and asked.stdout is not None
        try:
            asked.stdin.write("\n")
            assert asked.stdout.readline() == "\n"
            other.cut()
            asked.stdin.write("\n")
            said = asked.stdout.readline()
        finally:
            asked.kill()
            asked.wait()
    assert said.startswith(f"ranks 2, 3 on {other.address} cannot be reached any more from ") and ";" not in said
