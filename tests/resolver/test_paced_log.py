"""Lines of recompilations: one a second, and one that sums up what came in between."""

from __future__ import annotations

import logging
import time

import pytest

from habana_tf.resolver import paced_log


def test_what_comes_within_a_second_is_summed_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced_log.sum_up()
    monkeypatch.setattr(paced_log, "INTERVAL", 0.2)
    monkeypatch.setattr(paced_log, "_next", 0.0)
    with caplog.at_level(logging.INFO, logger="habana_tf"):
        for k in range(79):
            paced_log.say(f"recipe {k}", 0.5)
        assert [r.getMessage() for r in caplog.records] == ["recipe 0"]
        deadline = time.monotonic() + 10
        while len(caplog.records) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
    assert [r.getMessage() for r in caplog.records] == [
        "recipe 0",
        "78 more recipes in 39.0 s of compiling: habana_tf.recompilation_report() lists them",
    ]
    paced_log.sum_up()
    assert len(caplog.records) == 2


def test_the_last_ones_are_said_when_the_program_ends() -> None:
    from tests.child import python

    program = """
        import logging
        from habana_tf.resolver import paced_log
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        paced_log.say("first", 0.1)
        paced_log.say("second", 0.1)
    """
    assert python(program).stderr.splitlines() == [
        "first",
        "1 more recipe in 0.1 s of compiling: habana_tf.recompilation_report() lists them",
    ]
