"""`load_habana_module()`: what it says and imports, machines that it refuses, threads, and how a process ends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import habana_tf
from tests.child import python


def test_importing_the_package_is_light() -> None:
    done = python(
        """
        import sys, time
        start = time.process_time()  # its own time, whatever else the machine does
        import habana_tf
        spent = time.process_time() - start
        heavy = {"tensorflow", "numpy", "llvmlite", "google.protobuf"} & set(sys.modules)
        assert not heavy, heavy
        assert spent < 0.05, spent
        assert habana_tf.__version__
        assert not habana_tf.is_loaded()
        """
    )
    assert done.stdout == ""


def test_importing_tensorflow_next_to_the_package_changes_nothing() -> None:
    python(
        """
        import habana_tf
        import tensorflow as tf
        assert not tf.config.list_physical_devices("HPU")
        assert not habana_tf.is_loaded()
        """
    )


def test_the_first_step_imports_nothing() -> None:
    """What it needs came with the device: an import takes longer than to compile a kernel."""
    python(
        """
        import sys
        import habana_tf, tensorflow as tf
        habana_tf.load_habana_module()
        x = tf.random.stateless_normal([4, 4], [1, 2])  # an eager op brings the compiler
        before = set(sys.modules)
        tf.function(lambda x: tf.nn.softmax(x @ x + 1))(x)
        new = {name for name in sys.modules.keys() - before if name.startswith("habana_tf")}
        assert not new, new
        """,
        imported=True,
        hpu=False,
    )


def test_the_line_says_when_the_host_has_less_memory_than_the_card() -> None:
    from habana_tf import loader
    from habana_tf.hardware.cards import cards

    possible = cards()
    enough = possible[0].chip.hbm_bytes
    assert "host memory is the limit" not in loader._summary(possible, enough)
    assert "GiB, less than the card: host memory is the limit" in loader._summary(possible, enough - 1)


def test_one_line_says_what_was_loaded_and_the_second_call_is_silent() -> None:
    done = python(
        """
        import habana_tf
        assert habana_tf.load_habana_module() is None
        assert habana_tf.load_habana_module() is None
        assert habana_tf.is_loaded()
        from habana_tf import habana_device
        assert habana_device.get_type() == "GAUDI"
        """,
        imported=True,
        HABANA_SIM_CHIP="gaudi",
        HABANA_SIM_CARDS="4",
        HLS_MODULE_ID="3",
        HABANA_SIM_LOG="info",
    )
    assert done.stdout == ""  # which is the program's own
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("habana_tf")]
    for part in ("habana_tf", "simulated GAUDI,", "card 3 of 4", "32 GiB HBM", "TensorFlow"):
        assert part in line


@pytest.mark.rest
def test_sources_that_were_not_built_are_told_from_an_installed_package(tmp_path: Path) -> None:
    """As in the directory of the sources, where Python finds them before the installed package."""
    shutil.copytree(Path(habana_tf.__file__).parent, tmp_path / "habana_tf", ignore=shutil.ignore_patterns("*.so"))
    load = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import habana_tf; habana_tf.load_habana_module()"
    installed = python(load, check=False).stderr
    (tmp_path / "pyproject.toml").touch()
    sources = python(load, check=False).stderr
    for said in (installed, sources):
        assert "LoadError: the native part of habana_tf" in said and str(tmp_path) in said
    assert "start Python elsewhere" in sources and "start Python elsewhere" not in installed


def test_loading_and_the_first_op_add_little_memory() -> None:
    python(
        """
        import tensorflow as tf
        tf.constant(1.0) + 1.0
        from tensorflow.python.framework import kernels
        def resident():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * 4096 / 1e6
        before = resident()
        import habana_tf
        habana_tf.load_habana_module()
        with tf.device("/HPU:0"):
            tf.identity(tf.constant([1.0, 2.0])).numpy()
        assert resident() - before < 50, resident() - before
        import gc
        assert gc.get_freeze_count() == 0  # loading hides objects from the collector, for as long as it takes
        """,
        HABANA_SIM_CHIP="gaudi3",
    )


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"HLS_MODULE_ID": "9"}, ["HLS_MODULE_ID", "9", "8 card"]),
        ({"HABANA_VISIBLE_MODULES": "0,12"}, ["HABANA_VISIBLE_MODULES", "12"]),
        ({"HABANA_SIM_CHIP": "gaudi9"}, ["HABANA_SIM_CHIP", "gaudi2"]),
    ],
)
def test_a_card_that_does_not_exist_is_an_error_before_tensorflow_is_touched(
    settings: dict[str, str], words: list[str]
) -> None:
    done = python("import habana_tf; habana_tf.load_habana_module()", check=False, **settings)
    assert done.returncode != 0
    assert all(word in done.stderr for word in words), done.stderr
    assert "tensorflow" not in done.stdout


def test_without_tensorflow_the_error_says_what_to_install() -> None:
    done = python(
        """
        import importlib.util
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *a: None if name == "tensorflow" else find(name, *a)
        import habana_tf
        habana_tf.load_habana_module()
        """,
        check=False,
    )
    assert "LoadError" in done.stderr
    assert "pip install 'tensorflow" in done.stderr


def test_a_plugin_that_was_not_built_says_how_to_build_it() -> None:
    done = python(
        """
        from pathlib import Path
        exists = Path.exists
        Path.exists = lambda self: self.name != "libhabana_plugin.so" and exists(self)
        import habana_tf
        habana_tf.load_habana_module()
        """,
        check=False,
        imported=True,
    )
    assert "libhabana_plugin.so" in done.stderr
    assert "was not built" in done.stderr


def test_a_plugin_that_tensorflow_loads_by_itself_is_refused_with_the_way_to_load_it() -> None:
    """It would be a device without kernels, and all of a program would run on the CPU."""
    from habana_tf.loader import plugin_path

    for script in ("import tensorflow", "import habana_tf; habana_tf.load_habana_module()"):
        done = python(script, check=False, TF_PLUGGABLE_DEVICE_LIBRARY_PATH=str(plugin_path()))
        assert done.returncode == 1
        assert "habana_tf.load_habana_module()" in done.stderr
        assert "Unset TF_PLUGGABLE_DEVICE_LIBRARY_PATH" in done.stderr


def test_another_tensorflow_is_a_warning_not_a_refusal() -> None:
    done = python(
        """
        import tensorflow as tf
        import habana_tf.loader as loader
        loader.TESTED = ((2, 1), (2, 2))
        loader.load_habana_module()
        assert loader.is_loaded()
        """,
        imported=True,
    )
    assert "outside the tested range 2.1 to 2.2" in done.stderr


def test_op_override_is_remembered() -> None:
    python(
        """
        import habana_tf
        assert habana_tf.is_op_override_allowed()
        habana_tf.load_habana_module(allow_op_override=False)
        assert not habana_tf.is_op_override_allowed()
        habana_tf.load_habana_module()
        assert not habana_tf.is_op_override_allowed()
        habana_tf.load_habana_module(True)
        assert habana_tf.is_op_override_allowed()
        """,
        imported=True,
    )


def test_threads_load_once_and_none_imports_or_logs_under_the_lock() -> None:
    """The lock is free during imports and messages; a failure leaves the others to try."""
    python(
        """
        import logging, sys, threading
        import tensorflow as tf
        from habana_tf import loader
        from habana_tf.settings import habana as habana_variables

        free = []

        class Watched(logging.Handler):
            def emit(self, record):
                free.append(not loader._lock.locked())

        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name.startswith("habana_tf"):
                    free.append(not loader._lock.locked())

        sys.meta_path.insert(0, Finder())
        logging.getLogger("habana_tf").addHandler(Watched())
        logging.getLogger("habana_tf").setLevel(logging.DEBUG)
        check, calls = habana_variables.check, []

        def once_refused():
            calls.append(threading.get_ident())
            logging.getLogger("habana_tf").warning("asked")
            if len(calls) == 1:
                raise ValueError("refused")
            check()

        habana_variables.check = once_refused
        loaded, errors = [], []

        def load():
            try:
                loader.load_habana_module()
                loaded.append(loader.is_loaded() and len(tf.config.list_logical_devices("HPU")))
            except ValueError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=load) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == ["refused"] and loaded == [1] * 7 and len(calls) == 2, (errors, loaded, calls)
        assert len(free) > 10 and all(free)
        """,
        imported=True,
    )


def test_the_process_ends_while_launches_and_compilations_run() -> None:
    done = python(
        """
        import threading, time
        import numpy as np, tensorflow as tf
        import habana_tf
        from habana_tf import runtime_hooks
        habana_tf.load_habana_module()
        runtime_hooks.resolve = lambda c, s: time.sleep(1.0) or 1 / 0

        def work():
            with tf.device("/HPU:0"):
                while True:
                    try:
                        tf.identity(tf.constant([1.0])) * tf.constant([2.0])
                    except tf.errors.OpError:
                        pass

        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.5)
        print("end")
        """,
        imported=True,
    )
    assert done.stdout.splitlines() == ["end"]


@pytest.mark.parametrize("where", [pytest.param("eager", marks=pytest.mark.rest), "function"])
def test_ctrl_c_while_compiling_ends_in_a_keyboard_interrupt(where: str) -> None:
    done = python(
        f"""
        import os, signal, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs in the background ignores it
        import tensorflow as tf
        import habana_tf
        from habana_tf import runtime_hooks
        habana_tf.load_habana_module()
        compile = runtime_hooks.resolve
        calls = []

        def resolve(cluster, signature):
            calls.append(1)
            if len(calls) == 1:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                for _ in range(10):
                    time.sleep(0.1)
            return compile(cluster, signature)

        runtime_hooks.resolve = resolve
        with tf.device("/HPU:0"):
            x = tf.identity(tf.constant([1.0, 2.0]))
            step = tf.function(lambda a: a * a + 1.0) if {where!r} == "function" else lambda a: a * a + 1.0
            try:
                step(x)
                time.sleep(0.1)
            except KeyboardInterrupt:
                print("interrupted")
            print(step(x).numpy().tolist())
        """,
        imported=True,
    )
    assert done.stdout.splitlines() == ["interrupted", "[2.0, 5.0]"]
