"""What is measured once per host: the answer is coarse, kept, believed only from the user's own files, and no error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from habana_tf.hardware import calibration, cpu
from habana_tf.hardware.calibration import Answer, bf16_products, cpu_model, directory
from tests.child import python


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(calibration, "_answers", {})


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Sets what the next measurements find; gives the list that says which were made."""

    def set_(way: str) -> list[str]:
        made: list[str] = []

        def found(name: str, features: str) -> Answer:
            made.append(name)
            return Answer("dot" if way == "dot" else "widen", "measured now", {"fma": 1.0, "dot": 2.0})

        monkeypatch.setattr(calibration, "measure", found)
        return made

    return set_


def file() -> Path:
    (found,) = Path(directory()).iterdir()
    return found


@pytest.mark.parametrize("way", ["dot", "widen"])
def test_it_is_measured_once_per_host(measure: Callable[[str], list[str]], way: str) -> None:
    made = measure(way)
    assert bf16_products("znver5", "") == Answer(way, "measured now", {"fma": 1.0, "dot": 2.0})
    assert bf16_products("x86-64-v4", "").products == way  # a process does not read the file twice
    calibration.forget()
    assert bf16_products("znver5", "") == (way, str(file()), None)
    assert made == ["znver5"]
    assert file().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", [
    "", "no JSON", "[]", '{"version": 0}', '{"version": 1, "cpu": "another", "bf16_products": "widen"}',
    json.dumps({"version": 1, "cpu": cpu_model(), "bf16_products": "tiles"}),
])  # fmt: skip
def test_a_file_that_says_nothing_is_replaced(measure: Callable[[str], list[str]], text: str) -> None:
    measure("widen")
    bf16_products("znver5", "")
    file().write_text(text)
    calibration.forget()
    assert len(measure("dot")) == 0
    assert bf16_products("znver5", "")[:2] == ("dot", "measured now")
    assert json.loads(file().read_text())["bf16_products"] == "dot"


def test_a_file_that_others_can_write_is_not_believed(measure: Callable[[str], list[str]]) -> None:
    measure("widen")
    bf16_products("znver5", "")
    file().chmod(0o666)
    calibration.forget()
    measure("dot")
    assert bf16_products("znver5", "").products == "dot"


@pytest.mark.parametrize("caches", ["/proc/nothing", "relative"])
def test_no_place_for_a_file_is_no_error(
    measure: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caches: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", caches)
    made = measure("dot")
    assert [bf16_products("znver5", "").products for _ in range(2)] == ["dot", "dot"]
    assert made == ["znver5"]
    assert not any(tmp_path.iterdir())


def test_of_processes_that_measure_at_once_the_first_is_right(
    measure: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure("widen")
    bf16_products("znver5", "")
    calibration.forget()
    measure("dot")
    kept, seen = calibration._kept, []

    def late(model: str) -> Answer | None:
        seen.append(model)
        return kept(model) if len(seen) > 1 else None  # the other's file was not there yet when this one looked

    monkeypatch.setattr(calibration, "_kept", late)
    assert bf16_products("znver5", "") == ("widen", str(file()), None)


def test_what_this_cpu_cannot_execute_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_executes", lambda: False)
    other = cpu.Target(cpu.Isa.AVX512, True, "x86-64-v4", "+avx512bf16")
    assert other.bf16_answer() == ("dot", "not measured: this CPU has no such instruction", None)
    assert not Path(directory()).exists()


@pytest.mark.skipif(not cpu.target().multiplies_bf16_pairs, reason="this CPU has one way only")
def test_the_measurement_gives_the_same_answer_again() -> None:
    target = cpu.target()
    found = [calibration.measure(target.llvm_cpu, target.llvm_features) for _ in range(3)]
    assert len({each.products for each in found}) == 1
    for each in found:
        assert each.rates is not None and min(each.rates.values()) > 1e8


def test_loading_measures_nothing() -> None:
    """Nor does work in fp32: only what has bf16 asks."""
    code = """
        import habana_tf
        habana_tf.load_habana_module()
        import tensorflow as tf
        from habana_tf.hardware import calibration

        def product(dtype):
            with tf.device("/HPU:0"):
                return tf.matmul(tf.ones([64, 64], dtype), tf.ones([64, 64], dtype))

        asked = []
        calibration.measure = lambda *target: asked.append(target) or calibration.Answer("widen", "a test")
        product(tf.float32)
        assert not asked
        found = product(tf.bfloat16)
        assert (tf.cast(found, tf.float32).numpy() == 64).all()
        print(len(asked))
    """
    done = python(code, imported=True)
    assert done.stdout.split() == [str(int(cpu.target().multiplies_bf16_pairs))]
