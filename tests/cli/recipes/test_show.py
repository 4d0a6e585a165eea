"""`recipes show`: ops, kernels, the memory plan, key and sections of one recipe."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from habana_tf.cache.recipe_cache import RecipeCache
from habana_tf.reports.bar import bar
from tests.cli.recipes.conftest import OUT, WIDTH, Keys, key_of


def test_ops_kernels_and_key_are_there(cached: Keys, run: Callable[..., Any]) -> None:
    result = run("recipes", "show", cached["64"][:16].upper())
    assert result.code == 0
    for words in (cached["64"], "2.0 s", "digest verified", "llvm: 22.1", "MME", "TPC", "net/dense", "net 3",
                  "float32[64,30]", "plan", "object", "cluster", "workspace"):  # fmt: skip
        assert words in result.out.replace("net (3)", "net 3"), words
    contraction = next(line for line in result.out.splitlines() if "MME" in line)
    assert "[64,20]" in contraction and "net/dense" in contraction


def test_json_has_numbers_that_arithmetic_gives(cached: Keys, run: Callable[..., Any]) -> None:
    data = json.loads(run("recipes", "show", cached["64"], "--json").out)
    kernels, plan = data["kernels"], data["plan"]
    assert kernels[0]["flops"] == 64 * OUT * (2 * WIDTH + 1), "two per multiply-add, one per exp"
    assert data["header"]["flops"] == sum(kernel["flops"] for kernel in kernels)
    assert [op["kernels"] for op in data["ops"]][:2] == [[0], [0]]
    assert (
        plan["total"]
        >= plan["peak"]
        == max(
            sum(-(-b["nbytes"] // 64) * 64 for b in plan["blocks"] if b["first"] <= launch <= b["last"])
            for launch in range(plan["launches"])
        )
    )
    powers = [block for block in plan["blocks"] if block["nbytes"] == 64 * OUT * 4]
    assert powers, "what all kernels read is in the workspace"
    assert data["section_bytes"]["object"] > 0


def test_what_a_kernel_takes_at_least_follows_from_published_peaks(cached: Keys, run: Callable[..., Any]) -> None:
    """By hand, for Gaudi2's 2.45 TB/s: so small a product is bound by its two matrices and its result."""
    kernel = json.loads(run("recipes", "show", cached["64"], "--json").out)["kernels"][0]
    nbytes = 4 * (64 * WIDTH + WIDTH * OUT + 64 * OUT)
    assert kernel["at_least_seconds"] == pytest.approx(nbytes / 2.45e12)
    lines = run("recipes", "show", cached["64"]).out.splitlines()
    assert "at least" in next(line for line in lines if "engine" in line)
    assert "6.2 ns" in next(line for line in lines if "MME" in line)
    assert any(line.startswith("at least, ") and "2.45 TB/s" in line and "gaudi2" in line for line in lines)


def test_of_open_sizes_nothing_is_predicted(cached: Keys, run: Callable[..., Any]) -> None:
    kernels = json.loads(run("recipes", "show", cached["any"], "--json").out)["kernels"]
    assert kernels and all(kernel["at_least_seconds"] is None for kernel in kernels)
    line = next(line for line in run("recipes", "show", cached["any"]).out.splitlines() if "MME" in line)
    assert " - " in line


def test_a_range_is_shown_for_the_sizes_asked_for(cached: Keys, run: Callable[..., Any]) -> None:
    assert "depends on s0; pass --sizes" in run("recipes", "show", cached["any"]).out
    plan = json.loads(run("recipes", "show", cached["any"], "--sizes", "64", "--json").out)["plan"]
    assert any(block["nbytes"] == 64 * OUT * 4 for block in plan["blocks"])
    wrong = run("recipes", "show", cached["any"], "--sizes", "1", "2")
    assert wrong.code == 2 and "leaves 1 sizes open and 2 were given" in wrong.err
    assert run("recipes", "show", cached["any"], "--sizes", "0").code == 2


def test_every_op_has_a_line_when_asked_for(cached: Keys, run: Callable[..., Any]) -> None:
    lines = run("recipes", "show", cached["5"], "--ops").out.splitlines()
    assert any("Softmax" in line and "net/softmax" in line for line in lines)


def test_what_cannot_be_compiled_says_why(cached: Keys, run: Callable[..., Any]) -> None:
    cache = RecipeCache()
    key = key_of("bad", [3])
    cache.store_failure(key, "bad", {"ops": {"A": 2}, "inputs": [], "outputs": []}, "no kernel for A", 0.1)
    cache.close()
    assert "no kernel for A" in run("recipes", "show", "bad").out
    assert "cannot be compiled" in run("recipes", "list").out
    assert "cannot be compiled: no kernel for A" in run("recipes", "diff", "bad", cached["5"]).out
    assert run("recipes", "asm", "bad").code == 1


def test_without_a_name_it_is_the_one_that_took_longest(cached: Keys, run: Callable[..., Any]) -> None:
    shown = json.loads(run("recipes", "show", "--json").out)
    listed = json.loads(run("recipes", "list", "--json").out)["recipes"]
    longest = max(row["header"]["compile_seconds"] for row in listed)
    assert shown["header"]["compile_seconds"] == longest > 0


def test_an_ambiguous_name_lists_the_keys(cached: Keys, run: Callable[..., Any]) -> None:
    result = run("recipes", "show", "step")
    assert (result.code, result.out) == (1, "")
    assert "3 recipes match 'step'" in result.err
    assert "float32[64,30]" in result.err and "float32[s0,30]" in result.err


def test_show_verifies_the_payload(cached: Keys, run: Callable[..., Any]) -> None:
    path = next(cached.path.rglob("AddV2-*.recipe"))
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(data)
    result = run("recipes", "show", "AddV2")
    assert result.code == 1
    assert str(path) in result.err and "digest does not match" in result.err
    assert path.exists()


def test_looking_is_not_using(cached: Keys, run: Callable[..., Any]) -> None:
    for path in cached.path.rglob("*.recipe"):
        os.utime(path, (1e9, 1e9))
    before = {path: path.stat().st_mtime for path in cached.path.rglob("*")}
    for arguments in (["list"], ["show", "AddV2"], ["explain"], ["diff", cached["5"], cached["64"]], ["stats"],
                      ["verify"], ["ir", "--stage", "cluster", cached["5"]]):  # fmt: skip
        assert run("recipes", *arguments).code == 0
    assert {path: path.stat().st_mtime for path in cached.path.rglob("*")} == before


@pytest.mark.parametrize(
    ("values", "text"),
    [([], ""), ([0, 0], "  "), ([0, 4, 8], " ▄█"), ([1, 1000], "▁█"), (list(range(1, 129)), None)],
)
def test_the_bar_is_as_high_as_the_largest(values: list[int], text: str | None) -> None:
    drawn = bar(values)
    assert drawn == text if text is not None else len(drawn) == 64 and drawn == "".join(sorted(drawn))


def test_the_kernels_have_totals_and_shares_in_one_unit(cached: Keys, run: Callable[..., Any]) -> None:
    kernels = json.loads(run("recipes", "show", cached["64"], "--json").out)["kernels"]
    lines = [re.split(r"   +", line.strip()) for line in run("recipes", "show", cached["64"]).out.splitlines()]
    total = next(line for line in lines if line[0] == "all")
    rows = [next(line for line in lines if line[0] == str(k)) for k in range(len(kernels))]
    whole = sum(k["at_least_seconds"] for k in kernels)
    for row, kernel in zip(rows, kernels, strict=True):
        (share,) = [float(cell[:-1]) for cell in row if cell.endswith("%")]
        assert share == pytest.approx(100 * kernel["at_least_seconds"] / whole, abs=0.06)
    assert total[-1] == "100.0%"
    times = [cell for row in (*rows, total) for cell in row if re.fullmatch(r"<?[\d.,]+ (ns|µs|ms)", cell)]
    assert len(times) == len(kernels) + 1 and len({time.split()[1] for time in times}) == 1
