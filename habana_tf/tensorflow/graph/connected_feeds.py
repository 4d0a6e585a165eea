"""Keeps a fetched value and the nodes behind a feed of it in different launches.

A callable of a session may feed a placeholder with a tensor that it fetches (Keras makes such ones in graph mode):

    x -> Cast (fetched) - - > Placeholder (fed) -> MatMul          TensorFlow adds the dashed edge after the pass

TensorFlow tells which tensors are fetched and fed, but not how they are connected. One launch of Cast and MatMul would
wait for its own result, and TensorFlow would refuse the cycle. So while groups are made, a fetched value that depends
on no feed counts as an input of every fed placeholder of its type.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from habana_tf.tensorflow.graph.ops import output_types
from habana_tf.tensorflow.graph.view import Node, View, reached


@contextmanager
def connected(view: View) -> Iterator[None]:
    """Gives fed placeholders control edges from what they may be fed with."""
    feeds = [n for n in view.alive() if n.op == "Placeholder" and n.name in view.preserved]
    fetched = [n for n in view.alive() if n.name in view.fetched and n.op != "Placeholder"] if feeds else []
    pairs = [
        (source, feed)
        for source in fetched
        if reached([source], Node.sources).keys().isdisjoint(feeds)
        for feed in feeds
        if feed.proto.attr["dtype"].type in output_types(source)
    ]
    for source, feed in pairs:
        feed.controls.append(source)
    try:
        yield
    finally:
        for _, feed in pairs:
            feed.controls.pop()
