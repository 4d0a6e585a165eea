"""A module is one object under its two names, whichever is imported first and however."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import habana_tf
from habana_tf import aliases
from tests.child import environment, python
from tests.habana_frameworks import modules

OURS, THEIRS = modules.OURS, modules.THEIRS


def test_what_is_habanas_is_what_is_in_its_package() -> None:
    assert {name.partition(".")[0] for name in modules.HABANAS} == aliases.HABANAS
    ours = {name.partition(".")[0] for name in modules.below(OURS)}
    assert not ours & aliases.HABANAS, "a name is real in one place"
    assert ours > {"settings", "loader"}


def test_real_names() -> None:
    for package, name in modules.ALL:
        other = OURS if package == THEIRS else THEIRS
        assert aliases.real_name(f"{other}.{name}") == f"{package}.{name}"
        assert aliases.real_name(f"{package}.{name}") is None
    for foreign in ("habana_tf", "habana_tfx.ops", THEIRS, "habana_frameworks.torch", "numpy.ops", "ops"):
        assert aliases.real_name(foreign) is None


def test_nothing_of_habana_tf_imports_habanas_names() -> None:
    root = Path(habana_tf.__file__).parent
    wrong = []
    for path in root.rglob("*.py"):
        package = [OURS, *path.relative_to(root).parent.parts]
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                base = ".".join([*package[: len(package) + 1 - node.level]] if node.level else [])
                names = [".".join(filter(None, (base, node.module, alias.name))) for alias in node.names]
            wrong += [
                f"{path}: {name}" for name in names if name.startswith("habana_frameworks") or aliases.real_name(name)
            ]
    assert not wrong


BOTH = """
    import importlib, os, pickle, sys, traceback, types
    import tensorflow as tf
    from tests.habana_frameworks import modules

    def same(first, second, real):
        parents = [importlib.import_module(name.rpartition(".")[0]) for name in (first, second)]
        try:
            module = importlib.import_module(first)
        except ImportError as error:  # the one that is not for every TensorFlow says so by both names
            assert real.endswith(".habana_estimator") and not hasattr(tf, "estimator"), error
            try:
                importlib.import_module(second)
            except ImportError as again:
                assert str(again) == str(error) and "has no estimators" in str(error)
                return
            raise AssertionError(second)
        spec = module.__spec__
        assert importlib.import_module(second) is module, "two objects"
        assert sys.modules[first] is sys.modules[second] is module
        for parent in parents:
            assert getattr(parent, real.rpartition(".")[2]) is module, parent
        assert module.__name__ == spec.name == real and module.__spec__ is spec, module.__spec__
        assert module.__package__ == spec.parent and module.__loader__ is spec.loader
        assert module.__file__ == spec.origin, (module.__file__, spec.origin)
        assert type(spec.loader).__module__ != "habana_tf.aliases" and not spec._initializing
        stars = []
        for name in (first, second):
            stars.append({})
            exec(f"from {name} import *", stars[-1])
            stars[-1].pop("__builtins__")
        assert stars[0].keys() == stars[1].keys() and all(stars[0][k] is stars[1][k] for k in stars[0])
        for thing in vars(module).values():
            if isinstance(thing, (type, types.FunctionType)) and thing.__module__ == real:
                if getattr(module, thing.__qualname__, None) is not thing:
                    continue  # a wrapped function
                old = pickle.dumps(thing, 0)
                assert old.startswith(b"c" + real.encode()), old
                assert pickle.loads(old) is pickle.loads(old.replace(real.encode(), second.encode(), 1)) is thing
                assert pickle.loads(old.replace(real.encode(), first.encode(), 1)) is thing
        if real.startswith(modules.THEIRS):
            module.kept_by_a_reload = True
            assert importlib.reload(module) is module is sys.modules[first] is sys.modules[second]
            assert module.kept_by_a_reload and module.__name__ == real and module.__spec__.name == real

    def alone(first, second, real):
        # In a process where neither name was imported.
        child = os.fork()
        if not child:
            code = 1
            try:
                same(first, second, real)
                code = 0
            except BaseException:
                print(first, "before", second, file=sys.stderr)
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, (first, second)
"""

HABANAS = f"""{BOTH}
    for name in modules.HABANAS:
        ours, theirs = f"{{modules.OURS}}.{{name}}", f"{{modules.THEIRS}}.{{name}}"
        alone(ours, theirs, theirs)
        alone(theirs, ours, theirs)
"""

OTHERS = f"""{BOTH}
    for name in modules.below(modules.OURS):
        ours, theirs = f"{{modules.OURS}}.{{name}}", f"{{modules.THEIRS}}.{{name}}"
        if name.startswith("torch."):
            continue  # PyTorch is not installed where this runs, and Habana has no such names
        if not name.endswith("__main__"):  # these run when they are imported; test_as_a_program runs them
            same(theirs, ours, ours)
"""


def test_both_names_of_each_of_habanas_modules() -> None:
    python(HABANAS, imported=True, timeout=300)


def test_both_names_of_all_other_modules() -> None:
    python(OTHERS, imported=True, timeout=300)


def test_a_module_is_found_without_being_imported() -> None:
    python("""
        import importlib.util, sys
        import habana_frameworks.tensorflow, habana_tf
        from pathlib import Path
        for asked, real in [("habana_tf.ops", habana_frameworks.tensorflow), ("habana_tf.sysconfig", None),
                            ("habana_frameworks.tensorflow.distribute", habana_tf)]:
            spec = importlib.util.find_spec(asked)
            assert asked not in sys.modules and spec.name == asked and spec.has_location
            assert Path(spec.origin).exists() and spec.parent == (asked if real else "habana_tf"), spec
            if real is None:
                assert spec.submodule_search_locations is None
            else:
                assert list(spec.submodule_search_locations) == [str(Path(real.__file__).parent / asked.split(".")[-1])]
        assert importlib.util.find_spec("habana_tf.nowhere") is None
        assert importlib.util.find_spec("habana_frameworks.tensorflow.ops.nowhere") is None
    """)


@pytest.mark.parametrize(
    "wrong",
    ["habana_tf.nowhere", "habana_tf.ops.nowhere", "habana_tf.sysconfig.nowhere", f"{THEIRS}.nowhere",
     f"{THEIRS}.ops.nowhere", f"{THEIRS}.hardware.nowhere", f"{THEIRS}.settings.nowhere"],
)  # fmt: skip
def test_what_is_nowhere_is_missed_by_the_name_asked_for(wrong: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named") as error:
        __import__(wrong)
    assert error.value.name == wrong


def test_resources() -> None:
    from importlib.resources import files

    for root in (OURS, THEIRS):
        assert '"allowlist"' in files(f"{root}.bf16_config").joinpath("basic.json").read_text()
        assert files(f"{root}.media").joinpath("habana_dataset.py").is_file()
        assert files(root).joinpath("py.typed").is_file()


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error::RuntimeWarning", *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("root", [OURS, THEIRS])
def test_as_a_program(root: str) -> None:
    for module in ("multinode_helpers", "media.habana_dataset", "files.trust"):
        done = _run("-c", f"""if True:
            import runpy
            names = runpy.run_module("{root}.{module}", run_name="__main__", alter_sys=True)
            assert names["__name__"] == "__main__" and names["__file__"].endswith("{module.replace(".", "/")}.py")
            assert names["__spec__"].name == "{root}.{module}", names["__spec__"]
            print("ran")
        """)  # fmt: skip
        assert done.stdout == "ran\n", done.stderr
        done = _run("-m", f"{root}.{module}")
        assert (done.returncode, done.stderr) == (0, "")
    done = _run("-m", root)
    assert done.returncode == 2 and done.stderr.startswith("usage"), done.stderr
    done = _run("-m", f"{root}.cli", "ops", "MatMul")
    assert done.returncode == 0 and "MatMul" in done.stdout, done.stderr
    done = _run("-m", f"{root}.ops")
    assert done.returncode == 1 and f"No module named {root}.ops.__main__" in done.stderr, done.stderr


def test_importing_stays_light() -> None:
    python("""
        import sys
        import habana_tf
        names = {each for each in sys.modules if each.startswith(("habana", "_habana"))}
        assert names <= {"habana_tf", "habana_tf.aliases", "_habana_tf_horovod", "habana_tf.horovod.startup",
                         "habana_tf.version",
                         "habana_tf.horovod.startup._habana_tf_horovod"}, names
        import habana_frameworks.tensorflow
        new = {each for each in sys.modules if each.startswith(("habana", "_habana"))} - names
        assert new == {"habana_frameworks", "habana_frameworks.tensorflow"}, new
        habana_tf.sysconfig, habana_tf.setting, habana_tf.multinode_helpers, habana_tf.library_loader
        assert not {"tensorflow", "keras", "numpy", "llvmlite"} & sys.modules.keys()
    """)


def test_one_finder_however_often_habana_tf_is_imported() -> None:
    """What Horovod's import does where HPU is not wanted: habana_tf is taken out again as if it had not been there."""
    python("""
        import importlib, sys
        import habana_tf
        for _ in range(3):
            for name in [each for each in sys.modules if each.split(".")[0] == "habana_tf"]:
                del sys.modules[name]
            import habana_frameworks.tensorflow.settings as settings
            import habana_tf
            importlib.reload(habana_tf)
            import habana_tf.settings
            assert settings is habana_tf.settings is sys.modules["habana_frameworks.tensorflow.settings"]
            finders = [each for each in sys.meta_path if getattr(each, "__module__", None) == "habana_tf.aliases"]
            assert finders == [habana_tf.aliases.Finder] == sys.meta_path[:1], sys.meta_path
            del sys.modules["habana_frameworks.tensorflow.settings"]
    """)


def test_threads_that_import_by_both_names_get_one_module() -> None:
    python("""
        import importlib, sys, threading
        sys.setswitchinterval(1e-6)
        from tests.habana_frameworks import modules
        names = [name for name in modules.HABANAS if name.split(".")[0] in ("media", "sysconfig", "lib_utils",
                 "habana_device", "multinode_helpers", "library_loader", "habana_ops", "setting")]
        asked = [f"{root}.{name}" for name in [*names, "settings", "files.trust", "hardware.chips"]
                 for root in (modules.OURS, modules.THEIRS)]
        got, start = [], threading.Barrier(8)

        def run(k):
            start.wait()
            order = asked[k:] + asked[:k] if k % 2 else asked[::-1]
            got.append({name: importlib.import_module(name) for name in order})

        threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert len(got) == 8
        for name in asked:
            assert len({id(each[name]) for each in got}) == 1, name
            other = name.replace(modules.OURS, modules.THEIRS, 1) if name.startswith(modules.OURS) else \\
                name.replace(modules.THEIRS, modules.OURS, 1)
            module = got[0][name]
            assert module is got[0][other] and module.__spec__.name == module.__name__, name
    """)
