"""The frame codec that both ends of the sandbox's channel use."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_runner import protocol

KINDS = st.sampled_from(sorted(protocol.TO_SIDECAR))
FRAMES = st.lists(st.tuples(KINDS, st.binary(max_size=300)), max_size=20)


@given(frames=FRAMES, data=st.data())
def test_frames_survive_any_way_of_cutting_the_stream(
    frames: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    """A socket gives bytes in pieces of any size."""
    stream = b"".join(protocol.encode(kind, payload) for kind, payload in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    decoder = protocol.Decoder(protocol.TO_SIDECAR)

    decoded = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoded += decoder.feed(stream[start:end])

    assert decoded == frames
    assert decoder.pending_bytes == 0


@given(pieces=st.lists(st.binary(max_size=200), max_size=20))
def test_any_bytes_are_frames_or_a_frame_error(pieces: list[bytes]) -> None:
    """Nothing else comes out of the decoder, and it never holds more than one frame."""
    decoder = protocol.Decoder(protocol.TO_SIDECAR, payload_bytes_max=64)
    try:
        for piece in pieces:
            for kind, payload in decoder.feed(piece):
                assert kind in protocol.TO_SIDECAR
                assert len(payload) <= 64
            assert decoder.pending_bytes < 64 + 5
    except protocol.FrameError:
        pass


@given(length=st.integers(protocol.PAYLOAD_BYTES_MAX + 1, 2**32 - 1), kind=KINDS)
def test_a_length_over_the_bound_is_refused_before_its_payload(length: int, kind: int) -> None:
    """Nobody can make us hold four gigabytes."""
    with pytest.raises(protocol.FrameError, match=str(length)):
        list(protocol.Decoder(protocol.TO_SIDECAR).feed(struct.pack(">IB", length, kind)))


@given(kind=st.integers(0, 255))
def test_a_kind_of_the_other_direction_is_refused(kind: int) -> None:
    """Each end takes only what is meant for it."""
    header = struct.pack(">IB", 0, kind)
    for kinds in (protocol.TO_RUNNER, protocol.TO_SIDECAR):
        decoder = protocol.Decoder(kinds)
        if kind in kinds:
            assert list(decoder.feed(header)) == [(kind, b"")]
        else:
            with pytest.raises(protocol.FrameError, match=f"kind {kind}"):
                list(decoder.feed(header))


def test_frames_before_nonsense_are_given_out() -> None:
    """What was said in order still counts, however the stream was cut."""
    decoder = protocol.Decoder(protocol.TO_SIDECAR)
    frames = decoder.feed(protocol.encode(protocol.STDOUT, b"x") + b"\xff" * 5)

    assert next(frames) == (protocol.STDOUT, b"x")
    with pytest.raises(protocol.FrameError):
        next(frames)


def test_a_payload_over_the_bound_cannot_be_sent() -> None:
    """The bound holds on the way out too."""
    assert len(protocol.encode(protocol.DATA, bytes(protocol.PAYLOAD_BYTES_MAX))) == 5 + (1 << 20)
    with pytest.raises(protocol.FrameError, match="over"):
        protocol.encode(protocol.DATA, bytes(protocol.PAYLOAD_BYTES_MAX + 1))


@given(payload=st.binary(max_size=8))
def test_a_count_is_within_a_window_or_refused(payload: bytes) -> None:
    """An acknowledgement can't give back more than was ever out."""
    try:
        count = protocol.decode_count(payload)
    except protocol.FrameError:
        return
    assert 0 < count <= protocol.WINDOW_BYTES
    assert protocol.encode_count(protocol.ACK_DATA, count)[5:] == payload
