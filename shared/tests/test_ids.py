"""Identifiers: what is allowed, how they are made, and which shard is home."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidMessage
from shared.ids import SHARDS, home, parse_name, parse_task_id, task_id_of_delivery


@pytest.mark.parametrize(
    ("text", "fnv_1a_32"),
    [  # test vectors published with the function
        ("", 0x811C9DC5),
        ("a", 0xE40C292C),
        ("b", 0xE70C2DE5),
        ("c", 0xE60C2C52),
        ("fo", 0x6222E842),
        ("foobar", 0xBF9CF968),
        ("hello", 0x4F9F2CAB),
    ],
)
def test_home_is_the_published_hash_modulo_three(text: str, fnv_1a_32: int) -> None:
    """The servers' `partition` uses the same function; another one would put sessions on the wrong shard."""
    assert home(text) == fnv_1a_32 % 3


def test_homes_are_spread_evenly() -> None:
    """No shard gets much more than a third of the sessions."""
    homes = [home(f"3f2504e0-4f89-11d3-9a0c-{number:012x}") for number in range(3000)]

    assert all(900 < homes.count(shard) < 1100 for shard in range(SHARDS))


@pytest.mark.parametrize(
    ("shard", "seq", "task_id"),
    [
        (0, 1, "q0-000001-a"),
        (1, 1, "q1-000001-a"),
        (2, 1, "q2-000001-a"),
        (0, 1764450000123, "q0-1764450000123-c"),
    ],
)
def test_a_delivery_has_one_id(shard: int, seq: int, task_id: str) -> None:
    """Known values: a redelivery after an upgrade must still yield the id that was told to the client."""
    assert task_id_of_delivery(shard, seq) == task_id


@given(st.integers(0, SHARDS - 1), st.integers(1, 1 << 53))
def test_a_delivery_s_id_is_at_home_on_its_shard(shard: int, seq: int) -> None:
    """And it is a valid id, made with the first letter that does."""
    made = task_id_of_delivery(shard, seq)

    assert home(made) == shard
    assert parse_task_id(made) == made
    earlier = [chr(letter) for letter in range(ord("a"), ord(made[-1]))]
    assert all(home(made[:-1] + letter) != shard for letter in earlier)


def test_no_two_deliveries_share_an_id() -> None:
    """Short sequences are padded, long ones are not cut."""
    made = [
        task_id_of_delivery(shard, seq)
        for shard in range(SHARDS)
        for seq in (*range(1, 2000), 999_999, 1_000_000, 9_999_999)
    ]

    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    "text",
    [
        "12345678",
        "a" * 64,
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "A_b-C_d-",
    ],
)
def test_uuids_ulids_and_plain_words_are_ids(text: str) -> None:
    """8 to 64 characters of the narrow alphabet."""
    assert parse_task_id(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "1234567", "a" * 65, "-2345678", "_2345678", "1234 678", "1234.678", "12345678\n", "1234567>", "1234567*",
     "1234567é", "1234567\uff18"],
)  # fmt: skip
def test_what_could_break_a_subject_is_no_id(text: str) -> None:
    """Dots, wildcards, blanks and line ends would become part of a subject."""
    with pytest.raises(InvalidMessage, match="task or session id: 8 to 64 characters"):
        parse_task_id(text)


@pytest.mark.parametrize("text", ["a", "0", "default", "team-7", "a" * 32])
def test_short_lower_case_words_are_names(text: str) -> None:
    """Of tenants, pools and nodes."""
    assert parse_name(text, "pool") == text


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a_b", "a.b", "a" * 33, "a\n", "*", ">"])
def test_a_bad_name_is_refused_with_its_field(text: str) -> None:
    """The message says which name it was."""
    with pytest.raises(InvalidMessage, match=r"^tenant: 1 to 32 characters"):
        parse_name(text, "tenant")


@given(st.text(max_size=80))
def test_an_accepted_id_is_one_token_of_a_subject(text: str) -> None:
    """Whatever is accepted has nothing that a subject gives a meaning to."""
    try:
        parse_task_id(text)
    except InvalidMessage:
        return
    assert text.isascii()
    assert not set(text) & set(".*> \t\r\n")
