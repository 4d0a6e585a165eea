"""Which results are written to memory past the caches (x86: non-temporal stores).

A plain store reads a line of memory before it changes it, and puts out of the caches what was there. For a result that
the next kernel finds there that is right. One that is larger than they are has gone to memory by then, and the reading
was for nothing: a third of what an addition of two tensors moves.

    add 2 x 37 MB to 37 MB       4.0 ms with plain stores, 2.7 ms past the caches     (Zen 4, 32 MB of third-level
    the same of 12 MB            1.2 ms                    0.6 ms                      cache, two threads)

Not so written: new values of variables, whose lines the kernel has read already; what another kernel works on after it
in the same memory (scatters); results of kernels in a loop, which lie wherever the iteration's part of a list begins.
"""

from __future__ import annotations

from dataclasses import replace

from habana_tf.compiler.costs import STREAMED_BYTES
from habana_tf.compiler.schedule import Schedule
from habana_tf.hardware.cpu import Target
from habana_tf.ir.primitives import Node, Op, Program


def mark_streamed(plan: Schedule, program: Program, target: Target) -> None:
    """Says of the kernels which of their results to write past the caches (`Body.streamed`)."""
    if not target.stores_past_caches:
        return
    updated = {program.outputs[new] for _, new in program.updates}
    for k, kernel in enumerate(plan.kernels):
        if not (kernel.is_loop or kernel.is_contraction):
            continue
        stored = [s.target for s in kernel.stores]
        results = stored if kernel.is_contraction else kernel.outputs
        found = tuple(n for n in dict.fromkeys(results) if n not in updated and _large(n))
        if found:
            plan.kernels[k] = replace(kernel, streamed=found)


def _large(n: Node) -> bool:
    return n.op is not Op.SCATTER and isinstance(n.numel, int) and n.numel * n.dtype.bytes >= STREAMED_BYTES
