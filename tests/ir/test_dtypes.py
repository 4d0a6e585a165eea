"""Element types: names, sizes, accumulators."""

from __future__ import annotations

from habana_tf.ir.dtypes import DType, from_label, from_number


def test_element_types():
    for dtype in DType:
        assert from_number(dtype.number) is dtype and from_label(dtype.label) is dtype
        assert dtype.numpy.itemsize == dtype.bytes
    assert from_number(7) is None  # a string
    assert DType.BF16.accumulator is DType.F32 and DType.I8.accumulator is DType.I8
