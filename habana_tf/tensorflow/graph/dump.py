"""Graph dumps: the graph after each phase as a numbered text GraphDef, readable by Netron and TensorBoard.

`TF_DUMP_GRAPH_PREFIX` names the directory and `HBN_TF_GRAPH_DUMP` says how much: 0 nothing, 1 the final graph, 2 the
graph after every phase. Files are `habana_<graph>_<step>_<phase>.pbtxt`; graphs are numbered per process.
"""

from __future__ import annotations

import itertools
import logging
import os

from habana_tf import settings
from habana_tf.files import trust
from habana_tf.tensorflow.graph.view import View

_graphs = itertools.count()


class Dumps:
    """The dumps of one graph."""

    def __init__(self) -> None:
        self._directory = settings.TF_DUMP_GRAPH_PREFIX.get()
        self._level = settings.HBN_TF_GRAPH_DUMP.get() if self._directory else 0
        self._graph = next(_graphs) if self._level else 0
        self._step = 0

    def write(self, phase: str, view: View) -> None:
        """Writes the graph as it is after a phase, if it is asked for. A dump that fails is only a warning."""
        if not self._level or (self._level == 1 and phase != "launches"):
            return
        from google.protobuf import text_format
        from tensorflow.core.framework import graph_pb2

        assert self._directory is not None
        path = os.path.join(self._directory, f"habana_{self._graph:04d}_{self._step:02d}_{phase}.pbtxt")
        self._step += 1
        try:
            os.makedirs(self._directory, exist_ok=True)
            graph = graph_pb2.GraphDef.FromString(view.write())
            with os.fdopen(trust.replaced(path), "w", encoding="utf-8") as file:
                file.write(text_format.MessageToString(graph))
        except OSError as error:
            logging.getLogger("habana_tf").warning("the graph could not be dumped to %s: %s", path, error)
