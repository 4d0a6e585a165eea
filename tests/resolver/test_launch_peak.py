"""What is in the workspace of a launch at its peak: kernels and buffers made by hand."""

from __future__ import annotations

import json
from typing import Any, cast

from habana_tf.compiler import compressed
from habana_tf.compiler.recipe import Buffer, Kind
from habana_tf.resolver.launch_peak import LaunchPeak, launch_peak
from habana_tf.resolver.programs import Made


class _Step(Made):
    """Forward, its gradient, the update."""

    def ops(self) -> list[tuple[str, str]]:
        return [("MatMul", "net/a/MatMul"), ("Relu", "net/a/Relu"), ("ReluGrad", "gradient_tape/net/a/ReluGrad"),
                ("MatMul", "other"), ("Sub", "Adam/Sub")]  # fmt: skip


def step(*buffers: Buffer) -> Made:
    rows = [{"launches": [0, 1], "ops": [0, 1]}, {"launches": [1, 2], "ops": [2]}, {"launches": [3, 2], "ops": [4]}]
    rows = [{**row, "flops": 0, "bytes": 0, "shape": []} for row in rows]
    described = compressed.put(json.dumps(rows).encode())
    return _Step("step", b"", cast(Any, None), (), (), (8,), described, buffers, "compiled", 0.0)


def test_at_the_peak_each_buffer_has_a_category_and_a_layer() -> None:
    found = launch_peak(
        step(
            Buffer(Kind.INPUT, 0, 999, 0, 4),
            Buffer(Kind.WORKSPACE, 0, 100, 0, 3),  # an activation, read by the backward pass
            Buffer(Kind.WORKSPACE, 0, 10, 1, 2),  # a gradient
            Buffer(Kind.WORKSPACE, 0, 1, 2, 2),  # of the kernel at work
            Buffer(Kind.WORKSPACE, 0, 5, 0, 0),  # gone by then
        )
    )
    assert found.curve == (105, 110, 111, 100, 0)
    assert found.parts == {"activations": 100, "gradients": 10, "workspace": 1}
    assert found.layers == {"net/a": 111} and found.op == "gradient_tape/net/a/ReluGrad"


def test_what_an_update_makes_is_workspace() -> None:
    found = launch_peak(step(Buffer(Kind.WORKSPACE, 0, 7, 2, 4), Buffer(Kind.WORKSPACE, 0, 9, 3, 4)))
    assert found.parts == {"gradients": 7, "workspace": 9} and found.layers == {"Adam": 9, "net/a": 7}


def test_an_interpreted_program_has_no_kernels() -> None:
    assert launch_peak(Made("x", b"", cast(Any, None), (), (), (), b"", [], "interpreted", 0.0)) == LaunchPeak()
