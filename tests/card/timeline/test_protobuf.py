"""The wire format against Google's own implementation."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2, wrappers_pb2

from habana_tf.card.timeline.protobuf import integer, message, text


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)])
def test_numbers(value: int) -> None:
    assert wrappers_pb2.Int64Value.FromString(integer(1, value)).value == value


@pytest.mark.parametrize("value", ["", "a", "Gaudi β", "x" * 1000])
def test_text(value: str) -> None:
    assert wrappers_pb2.StringValue.FromString(text(1, value)).value == value


def test_messages_in_messages() -> None:
    enum = descriptor_pb2.EnumDescriptorProto()
    enum.name = "kinds"
    for number, name in enumerate(["none", "some"]):
        enum.value.add(name=name, number=number)
    written = text(1, "kinds") + b"".join(
        message(2, text(1, name), integer(2, number)) for number, name in enumerate(["none", "some"])
    )
    assert descriptor_pb2.EnumDescriptorProto.FromString(written) == enum
