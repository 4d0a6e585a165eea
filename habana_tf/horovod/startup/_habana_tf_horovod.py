"""Notices that a program imports Horovod's TensorFlow part: the only code of habana_tf that runs at every start of
Python.

It is a finder that compares the name of each import with one string. When that is the name of Horovod's ops, it calls
`habana_tf.horovod.changes`, which loads HPU if the program wants it, as Habana's own Horovod does.

Why at every start of Python (`habana_tf_horovod.pth`): scripts written for Gaudi may import only TensorFlow and
Horovod, and rely on `hvd.init()`. That they want HPU is told by one of Habana's variables, which they may set
themselves until then. Nothing else is imported here, not even `typing`, and TensorFlow is not changed.
"""

import sys

MODULE = "horovod.tensorflow.mpi_ops"
_OURS = ("habana_tf", "habana_frameworks")
_asking = False


class HorovodFinder:
    # Without the type of its result, which would have to be imported: hence the exception for mypy.
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None):  # type: ignore[no-untyped-def]
        """The specification of Horovod's ops; None for any other name."""
        global _asking
        if name != MODULE or _asking:
            return None
        in_use = any(module in sys.modules for module in _OURS)
        before = set(sys.modules)
        from habana_tf.horovod import changes

        _asking = True  # the other finders are asked in there
        try:
            spec, wanted = changes.watched(MODULE, in_use)
        finally:
            _asking = False
        if not wanted:  # as if we had not been here, so that the program's own import of habana_tf is noticed
            for module in set(sys.modules) - before:
                if module.split(".")[0] == "habana_tf":
                    del sys.modules[module]
        return spec


def install() -> None:
    """Puts the finder before the others, once. A Horovod that is imported already is seen to now."""
    if HorovodFinder not in sys.meta_path:
        sys.meta_path.insert(0, HorovodFinder)
    if MODULE in sys.modules and "habana_tf" in sys.modules:
        from habana_tf.horovod import changes

        changes.adopt()
