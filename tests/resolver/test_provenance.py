"""What a recipe was compiled from comes back whole from its sections."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tensorflow.core.framework import node_def_pb2, types_pb2

from habana_tf.compiler import compressed
from habana_tf.ir import extent as ext
from habana_tf.resolver.key_text import program_text
from habana_tf.resolver.provenance import Provenance
from habana_tf.tensorflow.clusters.cluster import parse
from habana_tf.tensorflow.clusters.writer import of_node


def _tile() -> bytes:
    node = node_def_pb2.NodeDef(name="model/tile", op="Tile", input=["x", "times"])
    node.attr["T"].type = types_pb2.DT_FLOAT
    node.attr["Tmultiples"].type = types_pb2.DT_INT32
    return of_node(node.SerializeToString())


@pytest.mark.parametrize("rows", [4, ext.sym(0)])
def test_it_lowers_to_the_same_program(rows: ext.Extent) -> None:
    data = _tile()
    times = np.array([1, 3], np.int32)
    source = Provenance(parse(data), [(rows, 5), (2,)], [None, times])
    sections = source.sections()
    again = Provenance.of(sections, parse)
    assert program_text(again.program()) == program_text(source.program())
    assert again.sections() == sections
    graph = json.loads(compressed.take(sections["graph"]))
    assert graph["ops"] == [["Tile", "model/tile", [[-1, 0], [-1, 1]]]]
    assert graph["outputs"] == [[0, 0]]


def test_values_may_be_extents() -> None:
    data = _tile()
    times = np.array([ext.sym(0), 3], object)
    again = Provenance.of(Provenance(parse(data), [(1, 5), (2,)], [None, times]).sections(), parse)
    assert again.values[0] is None
    assert list(again.values[1]) == [ext.sym(0), 3]


def test_the_ops_of_a_program_are_those_that_made_its_nodes() -> None:
    data = _tile()
    program = Provenance(parse(data), [(4, 5), (2,)], [None, np.array([1, 3], np.int32)]).program()
    assert {n.origin for n in program.nodes() if n not in program.inputs} == {0}
