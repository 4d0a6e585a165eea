"""habana_tf: a simulated Gaudi as TensorFlow's device `HPU` and PyTorch's `hpu`.

    from habana_tf import load_habana_module
    load_habana_module()

PyTorch's is loaded by `import habana_frameworks.torch`. Importing this package imports no framework and no compiler:
every name below is looked up in its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from habana_tf import aliases as _aliases

try:
    import _habana_tf_horovod as _startup  # beside the package where it is installed
except ImportError:
    from habana_tf.horovod.startup import _habana_tf_horovod as _startup

from habana_tf.version import __version__

if TYPE_CHECKING:
    from habana_tf.card.clock.report import card_time_report as card_time_report
    from habana_tf.card.model.host import Host as Host
    from habana_tf.custom.library import load_op_library as load_op_library
    from habana_tf.custom.op import custom_op as custom_op
    from habana_tf.dry_run.compare import compare as compare
    from habana_tf.dry_run.generation import predict_generation as predict_generation
    from habana_tf.dry_run.plan import plan as plan
    from habana_tf.dry_run.predict import predict as predict
    from habana_tf.keras_callbacks.card_time import CardTimeCallback as CardTimeCallback
    from habana_tf.keras_callbacks.recipe_logger import RecipeLogger as RecipeLogger
    from habana_tf.loader import is_loaded as is_loaded
    from habana_tf.loader import is_op_override_allowed as is_op_override_allowed
    from habana_tf.loader import load_habana_module as load_habana_module
    from habana_tf.loader import set_op_override_allowed as set_op_override_allowed
    from habana_tf.resolver.memory_report import memory_report as memory_report
    from habana_tf.resolver.placement_report import placement_report as placement_report
    from habana_tf.resolver.recompilations import recompilation_report as recompilation_report
    from habana_tf.tensorflow.graph.explain import explain as explain
    from habana_tf.torch.float8_report.report import fp8_report as fp8_report
    from habana_tf.torch.op_by_op import op_by_op as op_by_op

_WHERE = {
    "load_habana_module": "loader",
    "is_loaded": "loader",
    "is_op_override_allowed": "loader",
    "set_op_override_allowed": "loader",
    "HabanaEstimator": "habana_estimator",
    "custom_op": "custom.op",
    "load_op_library": "custom.library",
    "CardTimeCallback": "keras_callbacks.card_time",
    "RecipeLogger": "keras_callbacks.recipe_logger",
    "card_time_report": "card.clock.report",
    "explain": "tensorflow.graph.explain",
    "op_by_op": "torch.op_by_op",
    "placement_report": "resolver.placement_report",
    "memory_report": "resolver.memory_report",
    "Host": "card.model.host",
    "predict": "dry_run.predict",
    "compare": "dry_run.compare",
    "plan": "dry_run.plan",
    "predict_generation": "dry_run.generation",
    "recompilation_report": "resolver.recompilations",
    "fp8_report": "torch.float8_report.report",
}
_MODULES = {"bf16_config", "cache", "custom", "distribute", "hardware", "loader", "settings", *_aliases.HABANAS}

_NOT_EVERYWHERE = {"HabanaEstimator", "habana_estimator", "fp8_report", "op_by_op"}
"""What only some releases of TensorFlow can give, and what needs PyTorch."""

# Nor a name that has another one now.
__all__ = ["__version__", *sorted({*_WHERE, *_MODULES} - _NOT_EVERYWHERE - {"setting"})]


def __getattr__(name: str) -> Any:
    import importlib  # takes longer than all else here

    if name in _WHERE:
        value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_aliases.install()
_startup.install()  # installed packages do it at the start of Python, sources here
