"""A value that is fetched and fed back in comes from another launch than the work on what it is fed to.

What: a callable of a session may feed a placeholder with a tensor that it fetches (Keras makes such in graph mode):

    x -> Cast (fetched) - - > Placeholder (fed) -> MatMul          the dashed edge is made behind the graph pass

TensorFlow says what is fetched and what is fed, but not which of them are connected, and joins them after the pass. One
launch of Cast and MatMul would wait for its own result, which TensorFlow refuses as a cycle. So a fetched value that
depends on nothing fed counts as a source of every fed placeholder of its type while groups are made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from habana_tf.graph.ops import output_types
from habana_tf.graph.view import Node, View, reached


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
