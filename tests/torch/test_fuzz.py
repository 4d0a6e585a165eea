"""Arguments that do not fit, over all overloads of the table, in processes of their own: see `fuzz`."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests import forked
from tests.child import environment
from tests.effort import THOROUGH, some
from tests.torch.child import needs_torch

PARTS = 32 if THOROUGH else 128
"""A process of many rows costs little more than one of few: most of it is the import and the loading."""
RIGHT = {"refused", "same", "by design", "not compared"}


@needs_torch
@pytest.mark.part
@pytest.mark.parametrize("part", some(range(PARTS), PARTS, 7))
@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_calls_that_do_not_fit(part: int, mode: str) -> None:
    """Each is refused or computed as on the CPU, and ends no process but where the CPU's own kernel does."""
    row = first = 0
    outcomes: Counter[str] = Counter()
    wrong = []
    env = environment(HABANA_SIM_CHECK_INDICES="error", PT_HPU_LAZY_MODE="1" if mode == "lazy" else "0")
    while True:
        command = ["-m", "tests.torch.fuzz", *map(str, (part, PARTS, row, first))]
        made = forked.run(command, env, timeout=300, hpu=True, framework="torch")
        said = [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]
        calls = [each for each in said if "name" in each]
        assert calls, f"the process ended with {made.returncode} before its first call"
        last = calls[0]
        for each in said:
            last = each if "name" in each else last
            if "outcome" in each:
                outcomes[each["outcome"]] += 1
                if each["outcome"] not in RIGHT | {"end"}:
                    wrong.append(f"{last['name']}{last['arguments']}: {each['outcome']}: {each['wrong']}")
        if said[-1].get("outcome") == "end":
            break
        if said[-1]["at"] == "hpu":
            wrong.append(f"{last['name']}{last['arguments']} ended the process with {made.returncode}")
        row, first = last["row"], last["call"] + 1
    assert outcomes.total() > 20 and not wrong, "\n".join(wrong)  # of three rows, of which all may be of one kind
