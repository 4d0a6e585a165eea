"""What a holder publishes, as another process reads it, against what that process knows itself."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habana_tf.hardware import telemetry
from tests.child import environment, machine, python

READ = """
import dataclasses, json
from habana_tf.hardware import telemetry
print(json.dumps(dataclasses.asdict(telemetry.holder(0))))
"""


def test_memory_launches_and_recipes_are_those_of_the_holder() -> None:
    host = machine()
    script = """
    import json, os, time
    import tensorflow as tf, habana_tf
    from habana_tf._native import _bridge
    start = time.time()
    habana_tf.load_habana_module()
    x = tf.random.normal([512, 512])
    f = tf.function(lambda a: tf.nn.relu(a @ a) + 1.0)
    for _ in range(5):
        f(x)
    f(x[:100, :100])
    w, total = tf.Variable(x), tf.Variable(0.0)
    step = tf.function(lambda a: w.assign_sub(1e-3 * (a @ w)))
    metric = tf.function(lambda a: total.assign_add(tf.reduce_sum(tf.abs(a))))
    for _ in range(9):
        step(x), metric(x)
    known = tf.config.experimental.get_memory_info("HPU:0")
    counts = _bridge.counters()
    from habana_tf import cache
    print(json.dumps([os.getpid(), start, known["peak"], counts["device_bytes"], counts["launches"],
                      cache.stats().counts().compiled]), flush=True)
    input()
    """
    worker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment(HABANA_SIM_STATE_DIR=host, HABANA_SIM_CHIP="gaudi3"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert worker.stdout is not None
        pid, start, peak, device_bytes, launches, compiled = json.loads(worker.stdout.readline())
        seen = json.loads(python(READ, HABANA_SIM_STATE_DIR=host).stdout)
        told = seen["telemetry"]
        assert seen["pid"] == pid and start <= told["since"] <= time.time()
        assert told["chip"] == "gaudi3" and told["hbm_bytes"] == 128 << 30
        assert peak <= told["memory"] == told["memory_peak"] == device_bytes
        assert told["launches"] == launches >= 6
        assert told["recipes"] == compiled > 0 and told["recompiled"] == 1 and told["hits"] == 0
        assert told["steps"] == 9, "of the two launches that update variables one counts"
        assert 0 < told["busy"] < 60 and 0 <= told["utilization"] <= 1
    finally:
        worker.kill()
        worker.wait()


def test_utilization_follows_the_work() -> None:
    """How much it is, is for the test of the formula below: a busy host may stop any process at any time."""
    host = machine()
    script = """
    import time
    from habana_tf._native import _bridge
    from habana_tf.hardware import claim
    claim.claim()
    handle = _bridge.make_interpreted("nap", [], [], lambda *a: time.sleep(0.1))
    while input() == "work":
        _bridge.run_program(handle, [])
    handle = _bridge.make_interpreted("long", [], [], lambda *a: print("running", input(), flush=True))
    _bridge.run_program(handle, [])
    """
    worker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment(HABANA_SIM_STATE_DIR=host),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    reader = subprocess.Popen(
        [sys.executable, "-c", "from habana_tf.hardware import telemetry\nwhile input():\n"
         " held = telemetry.holder(0)\n t = held and held.telemetry\n print(t.utilization if t else -1, flush=True)"],
        env=environment(HABANA_SIM_STATE_DIR=host), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def tell(process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin
        process.stdin.write(line + "\n")
        process.stdin.flush()

    def becomes(wanted: Callable[[float], bool]) -> bool:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            tell(reader, "now")
            assert reader.stdout
            if wanted(float(reader.stdout.readline())):
                return True
            time.sleep(0.05)
        return False

    try:
        tell(worker, "work\n" + "\n".join(["work"] * 9))
        assert becomes(lambda part: part > 0.05)
        assert becomes(lambda part: part == 0)
        tell(worker, "rest")
        assert becomes(lambda part: part > 0.9), "a launch that has not ended yet counts"
    finally:
        for process in (worker, reader):
            process.kill()
            process.wait()


@given(
    now=st.integers(2_000_000_000, 10**15),
    spans=st.lists(st.tuples(st.integers(0, 3_000_000_000), st.integers(1, 400_000_000)), max_size=8),
)
def test_windows_add_up_to_the_exact_busy_time_but_for_the_oldest(now: int, spans: list[tuple[int, int]]) -> None:
    """Against the sum over disjoint spans (offset before now, length); only the oldest window is an estimate."""
    words = [0] * 16
    exact, edge = 0, now
    for gap, length in spans:
        end = edge - gap
        start = max(0, end - length)
        edge = start
        exact += max(0, end - max(start, now - 1_000_000_000))
        at = max(start, now - 15 * 100_000_000)
        while at < end:
            number = at // 100_000_000
            upto = min(end, (number + 1) * 100_000_000)
            if number > now // 100_000_000 - 16:
                words[number % 16] = number % (1 << 32) << 32 | (words[number % 16] & 0xFFFFFFFF) + upto - at
            at = upto
    assert telemetry._utilization(words, 0, now) == pytest.approx(min(1.0, exact / 1e9), abs=0.1)


def test_a_page_of_another_version_or_process_is_not_believed() -> None:
    page = bytearray(4096)
    page[0:8], page[8:16] = (2).to_bytes(8, "little"), (77).to_bytes(8, "little")
    assert telemetry._telemetry(bytes(page), 77, 0) is not None
    assert telemetry._telemetry(bytes(page), 78, 0) is None
    assert telemetry._telemetry(b"\1" + bytes(page[1:]), 77, 0) is None
    assert telemetry._telemetry(bytes(page[:100]), 77, 0) is None
