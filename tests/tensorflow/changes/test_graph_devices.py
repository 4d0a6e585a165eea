"""Graphs whose input pipelines, tables, queues and strings are made under HPU run without soft placement."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.child import on_hpu

v1 = tf.compat.v1
Dataset = tf.data.Dataset
Program = Callable[[], tuple[list[Any], Any]]
"""Makes a graph: what to run first, one after the other, and the results."""


def run(program: Program, device: str, v1_control_flow: bool = False) -> Any:
    """What a program gives on a device, and no other allowed."""
    if v1_control_flow:
        v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph, tf.device(device):
            v1.set_random_seed(1)
            steps, results = program()
    finally:
        v1.enable_control_flow_v2()
    config = v1.ConfigProto(allow_soft_placement=False, operation_timeout_in_ms=60000)
    with v1.Session(graph=graph, config=config) as session:
        for step in steps:
            session.run(step)
        return session.run(results)


def compare(*programs: Program) -> None:
    """Each gives under HPU what it gives under the CPU, with both kinds of control flow."""
    for program in programs:
        for old in (False, True):
            got, want = (tf.nest.flatten(run(program, d, old)) for d in ("/device:HPU:0", "/device:CPU:0"))
            for g, w in zip(got, want, strict=True):
                if np.asarray(w).dtype.kind in "OSU":
                    np.testing.assert_array_equal(g, w, err_msg=program.__name__)
                else:
                    np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5, err_msg=program.__name__)


def initialized(dataset: Any) -> tuple[list[Any], Any]:
    iterator = v1.data.make_initializable_iterator(dataset)
    return [iterator.initializer], iterator.get_next()


# --- pipelines ---


def one_shot() -> tuple[list[Any], Any]:
    dataset = v1.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.float32)).map(lambda x: x * 2).batch(2)
    return [], v1.data.make_one_shot_iterator(dataset).get_next()


def long_chain() -> tuple[list[Any], Any]:
    dataset = Dataset.range(20).map(lambda x: tf.cast(x, tf.float32) * 2, num_parallel_calls=2).shuffle(5, seed=1)
    return initialized(dataset.repeat(2).filter(lambda x: x > 3).batch(4, drop_remainder=True).prefetch(2))


def nested() -> tuple[list[Any], Any]:
    dataset = Dataset.range(4).interleave(lambda x: Dataset.from_tensors(x).repeat(3), cycle_length=2)
    windows = Dataset.range(9).window(3).flat_map(lambda w: w.batch(3))
    return initialized(Dataset.zip((dataset.enumerate(), windows.cache().take(2))).padded_batch(2))


def generated() -> tuple[list[Any], Any]:
    return initialized(Dataset.from_generator(lambda: iter([1.0, 2.0, 3.0]), tf.float32, []).batch(2))


def copied() -> tuple[list[Any], Any]:
    dataset = Dataset.range(6).batch(2).apply(tf.data.experimental.prefetch_to_device(tf.no_op().device))
    return initialized(dataset)


def reinitializable() -> tuple[list[Any], Any]:
    dataset = Dataset.range(6).batch(2)
    types, shapes = v1.data.get_output_types(dataset), v1.data.get_output_shapes(dataset)
    iterator = v1.data.Iterator.from_structure(types, shapes)
    handle = v1.data.make_one_shot_iterator(dataset).string_handle()
    other = v1.data.Iterator.from_string_handle(handle, types, shapes)
    return [iterator.make_initializer(dataset)], [iterator.get_next(), other.get_next()]


@on_hpu
def test_pipelines_of_datasets() -> None:
    compare(one_shot, long_chain, nested, generated, copied, reinitializable)


@on_hpu
def test_a_detection_models_loader_of_records() -> None:
    """Files by name, records, JPEGs, random crops, a table of classes, copies to the device, a step of training."""
    with tempfile.TemporaryDirectory() as folder:
        _write_records(Path(folder) / "train-0.tfrecord")

        def parse(record: Any) -> Any:
            found = v1.parse_single_example(
                record,
                {
                    "image": v1.FixedLenFeature([], tf.string),
                    "class": v1.FixedLenFeature([], tf.string),
                    "boxes": v1.VarLenFeature(tf.float32),
                },
            )
            image = tf.image.decode_jpeg(found["image"], channels=3)
            boxes = tf.reshape(v1.sparse_tensor_to_dense(found["boxes"]), [1, -1, 4])
            begin, size, _ = v1.image.sample_distorted_bounding_box(tf.shape(image), boxes, seed=1)
            image = v1.image.resize_images(tf.cast(tf.slice(image, begin, size), tf.float32) / 255.0, [16, 16])
            image = v1.cond(tf.random.uniform([]) < 0.5, lambda: tf.image.flip_left_right(image), lambda: image)
            return image, boxes[0, :1], found["class"]

        def program() -> tuple[list[Any], Any]:
            names = tf.lookup.KeyValueTensorInitializer(["cat", "dog"], tf.constant([1, 2]))
            table = tf.lookup.StaticHashTable(names, 0)
            files = Dataset.list_files(tf.constant(f"{folder}/*.tfrecord"), shuffle=False)
            records = files.apply(tf.data.experimental.parallel_interleave(tf.data.TFRecordDataset, cycle_length=2))
            records = records.apply(tf.data.experimental.shuffle_and_repeat(8, seed=1))
            batches = records.map(parse, num_parallel_calls=2).batch(4, drop_remainder=True).prefetch(2)
            batches = batches.apply(tf.data.experimental.prefetch_to_device(tf.no_op().device))
            iterator = v1.data.make_initializable_iterator(batches)
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            image, boxes, names = iterator.get_next()
            w = v1.get_variable("w", [16 * 16 * 3, 4], use_resource=True)
            labels = table.lookup(names)
            logits = tf.matmul(tf.reshape(image, [4, -1]), w)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)) + tf.reduce_sum(boxes)
            step = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
            return [v1.global_variables_initializer(), v1.tables_initializer(), step, step], [loss, labels]

        for old in (False, True):
            loss, labels = run(program, "/device:HPU:0", old)
            assert np.isfinite(loss) and set(labels) <= {1, 2}


def _write_records(path: Path) -> None:
    jpeg = tf.io.encode_jpeg(np.random.default_rng(0).integers(0, 255, (40, 50, 3)).astype(np.uint8)).numpy()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name in (b"cat", b"dog") * 4:
            feature = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg])),
                "class": tf.train.Feature(bytes_list=tf.train.BytesList(value=[name])),
                "boxes": tf.train.Feature(float_list=tf.train.FloatList(value=[0.1, 0.2, 0.7, 0.9])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


# --- other state of the host ---


def tables() -> tuple[list[Any], Any]:
    words = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1.0, 2.0]), -1.0)
    grown = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    dense = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, 0.0, -1, -2)
    mapped = v1.data.make_initializable_iterator(Dataset.from_tensor_slices(["b", "z"]).map(words.lookup).batch(2))
    steps = [v1.tables_initializer(), mapped.initializer, grown.insert(["a"], np.array([3]))]
    steps.append(dense.insert(np.array([4]), np.array([3.0], np.float32)))
    found = [words.lookup(tf.constant(["a", "z"])), words.size(), grown.lookup(tf.constant(["a", "c"]))]
    return steps, [*found, dense.lookup(np.array([4, 5])), mapped.get_next()]


def queues() -> tuple[list[Any], Any]:
    first = tf.queue.FIFOQueue(3, [tf.string, tf.float32], [[], []])
    shuffled = tf.queue.RandomShuffleQueue(4, 1, tf.int64, [[]])
    padded = tf.queue.PaddingFIFOQueue(3, [tf.float32], [[None]])
    sums = v1.ConditionalAccumulator(tf.float32, [2])
    steps = [first.enqueue(("a", 1.0)), shuffled.enqueue_many([np.zeros(3, np.int64)]), padded.enqueue([[1.0, 2.0]])]
    steps.append(sums.apply_grad(tf.constant([1.0, 2.0]) * 2))
    return steps, [first.dequeue(), shuffled.dequeue_many(2), padded.dequeue(), sums.take_grad(1)]


def readers() -> tuple[list[Any], Any]:
    names = tf.queue.FIFOQueue(2, tf.string, [[]])
    _, line = v1.TextLineReader().read(names)
    return [names.enqueue(__file__)], [line, tf.strings.length(tf.io.read_file(__file__))]


def arrays_of_strings() -> tuple[list[Any], Any]:
    array = tf.TensorArray(tf.string, 2, clear_after_read=False).write(0, "a").write(1, "b")
    return [], [array.read(1), v1.while_loop(lambda s: tf.strings.length(s) < 4, lambda s: s + "x", [tf.constant("")])]


def sparse_and_ragged() -> tuple[list[Any], Any]:
    sparse = tf.sparse.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 4])
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0]])
    out = [tf.sparse.to_dense(tf.sparse.add(sparse, tf.sparse.reorder(sparse))), tf.sparse.reduce_sum(sparse, 1)]
    out += [tf.sparse.concat(0, [sparse, sparse]).values * 2, ragged.to_tensor(), tf.concat([ragged, ragged], 1).values]
    return [], [*out, tf.reduce_sum(ragged, 1), tf.strings.split(tf.constant(["a b", "c"])).to_tensor()]


def printed() -> tuple[list[Any], Any]:
    called = tf.py_function(lambda s: tf.strings.length(s), [tf.constant("abc")], tf.int32)
    checks = [v1.Assert(called > 1, ["too short", called]), v1.assert_equal(called, 3, message="length")]
    with tf.control_dependencies(checks):
        return [v1.summary.histogram("h", tf.constant([1.0, 2.0]))], [called + 1, v1.cond(
            called > 2, lambda: tf.constant("a"), lambda: tf.constant("b")
        )]  # fmt: skip


def pictures() -> tuple[list[Any], Any]:
    jpeg = tf.image.encode_jpeg(tf.zeros([8, 8, 3], tf.uint8) + 7)
    boxes = tf.constant([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.9, 1.0]])
    kept = tf.image.non_max_suppression(boxes, tf.constant([1.0, 2.0]), 3)
    return [], [
        tf.image.decode_image(jpeg),
        tf.cast(tf.image.decode_jpeg(jpeg), tf.float32) * 2,
        tf.gather(boxes, kept),
    ]


def imported() -> tuple[list[Any], Any]:
    with tf.Graph().as_default() as graph, tf.device(None):
        tf.strings.length(tf.strings.join([tf.constant("a"), "b"]), name="x")
    read = graph.as_graph_def()
    for node in read.node:
        node.device = "/device:HPU:0"
    return [], v1.import_graph_def(read, return_elements=["x:0"], name="")


def beside() -> tuple[list[Any], Any]:
    weights = v1.get_variable("weights", initializer=np.ones(2, np.float32), use_resource=True)
    with v1.colocate_with(weights.handle):
        text = tf.constant("abc")
        length = tf.cast(tf.strings.length(text), tf.float32)
    return [v1.global_variables_initializer()], weights * length


@on_hpu
def test_state_and_ops_of_the_host() -> None:
    compare(tables, queues, readers, arrays_of_strings, sparse_and_ragged, printed, pictures, imported, beside)


@on_hpu
def test_variables_are_saved_and_restored() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for resource in (False, True):
            with tf.Graph().as_default(), tf.device("/device:HPU:0"):
                a = v1.get_variable("a", initializer=np.ones(2, np.float32), use_resource=resource)
                v1.get_variable("i", initializer=np.int64(4), use_resource=resource)
                saver, change = v1.train.Saver(sharded=resource), v1.assign(a, a * 5)
                with v1.Session(config=v1.ConfigProto(allow_soft_placement=False)) as session:
                    session.run(v1.global_variables_initializer())
                    path = saver.save(session, f"{folder}/{resource}")
                    session.run(change)
                    saver.restore(session, path)
                    np.testing.assert_array_equal(session.run(a), [1, 1])


# --- what is not touched ---


@on_hpu
def test_only_what_hpu_cannot_take_is_moved() -> None:
    with tf.Graph().as_default(), tf.device("/job:worker/task:1/device:HPU:0"):
        x = tf.constant([1.0, 2.0])
        on_hpu = [x, x * 2, tf.identity(tf.constant("a")), v1.get_variable("v", [2], use_resource=True).handle]
        assert {t.device for t in on_hpu} == {"/job:worker/task:1/device:HPU:0"}
        moved = [tf.constant("a"), Dataset.range(3)._variant_tensor, v1.get_variable("r", [2], use_resource=False)]
        assert {t.device for t in moved} == {"/job:worker/task:1/device:CPU:0"}
    with tf.Graph().as_default(), tf.device(None):
        assert not tf.constant("a").device
    with tf.Graph().as_default(), tf.device("/GPU:0"):
        assert tf.constant("a").device == "/device:GPU:0"


@on_hpu
def test_eager_pipelines_under_hpu_are_as_before() -> None:
    with tf.device("/HPU:0"):
        assert [int(x) for x in Dataset.range(4).map(lambda x: x * 2).prefetch(1)] == [0, 2, 4, 6]
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), 0)
        assert table.lookup(tf.constant(["a", "b"])).numpy().tolist() == [1, 0]
    tf.config.set_soft_device_placement(False)
    try:
        with tf.device("/HPU:0"), pytest.raises((tf.errors.InvalidArgumentError, tf.errors.NotFoundError)):
            tf.raw_ops.RangeDataset(start=0, stop=3, step=1, output_types=[tf.int64], output_shapes=[[]])
    finally:
        tf.config.set_soft_device_placement(True)
