"""What a holder publishes, as another process reads it, against what that process knows itself."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time

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
        assert told["recipes"] == compiled > 0
        assert 0 < told["busy"] < 60 and 0 <= told["utilization"] <= 1
    finally:
        worker.kill()
        worker.wait()


def test_utilization_is_the_busy_part_of_the_last_second() -> None:
    host = machine()
    script = """
    import time
    from habana_tf._native import _bridge
    from habana_tf.hardware import claim
    claim.claim()
    handle = _bridge.make_interpreted("nap", [], [], lambda *a: time.sleep(0.1))
    _bridge.run_program(handle, [])  # the first call imports NumPy
    until = time.monotonic() + 1.3
    while time.monotonic() < until:
        _bridge.run_program(handle, [])
        time.sleep(0.1)
    print("half", flush=True)
    time.sleep(1.2)
    print("idle", flush=True)
    input()
    handle = _bridge.make_interpreted("long", [], [], lambda *a: (time.sleep(1.2), print("full", flush=True)))
    _bridge.run_program(handle, [])
    input()
    """
    reader = subprocess.Popen(
        [sys.executable, "-c", "from habana_tf.hardware import telemetry\nprint(flush=True)\nwhile input():\n"
         " t = telemetry.holder(0).telemetry\n print(t.utilization, t.busy, flush=True)"],
        env=environment(HABANA_SIM_STATE_DIR=host), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert reader.stdout is not None
    reader.stdout.readline()  # it is there before the work begins
    worker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment(HABANA_SIM_STATE_DIR=host),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert worker.stdin and worker.stdout and reader.stdin and reader.stdout
        seen = {}
        for _ in range(3):
            what = worker.stdout.readline().strip()
            reader.stdin.write("now\n")
            reader.stdin.flush()
            seen[what] = [float(x) for x in reader.stdout.readline().split()]
            if what == "idle":
                worker.stdin.write("go on\n")
                worker.stdin.flush()
        assert 0.3 < seen["half"][0] < 0.75
        assert seen["idle"][0] == 0
        assert seen["full"][0] > 0.8  # a launch that has not ended yet counts
        assert 1.7 < seen["full"][1] < 3.0
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
    page[0:8], page[8:16] = (1).to_bytes(8, "little"), (77).to_bytes(8, "little")
    assert telemetry._telemetry(bytes(page), 77, 0) is not None
    assert telemetry._telemetry(bytes(page), 78, 0) is None
    assert telemetry._telemetry(b"\2" + bytes(page[1:]), 77, 0) is None
    assert telemetry._telemetry(bytes(page[:100]), 77, 0) is None
