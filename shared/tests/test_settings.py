"""Settings from the environment: every problem is named at once, and what is right is taken over."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from shared.settings import SettingsError, load, to_environ


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field of each sort."""

    servers: tuple[str, ...]
    warm_size: Annotated[int, Meta(ge=0, le=100)] = 4
    ack_wait_s: Annotated[float, Meta(gt=0)] = 2.0
    rings: bool = True
    class_name: Literal["auto", "landlock"] = "auto"
    shards: tuple[int, ...] = (0, 1, 2)
    log_path: str | None = None


def problems(**environ: str) -> str:
    """Return what is said of a bad environment."""
    with pytest.raises(SettingsError) as refusal:
        load(Sample, "POOL_", environ)
    return str(refusal.value)


def test_variables_fill_fields() -> None:
    """Numbers, truths, choices and lists are read from their text; other services' variables are passed over."""
    environ = {
        "POOL_SERVERS": "nats://a:1, nats://b:2,",
        "POOL_WARM_SIZE": "7",
        "POOL_ACK_WAIT_S": "0.5",
        "POOL_RINGS": "false",
        "POOL_CLASS_NAME": "landlock",
        "POOL_SHARDS": "2,0",
        "POOL_LOG_PATH": "/var/log/x",
        "WORKER_NO_SUCH": "1",
        "PATH": "/bin",
    }

    assert load(Sample, "POOL_", environ) == Sample(
        servers=("nats://a:1", "nats://b:2"),
        warm_size=7,
        ack_wait_s=0.5,
        rings=False,
        class_name="landlock",
        shards=(2, 0),
        log_path="/var/log/x",
    )


def test_what_is_not_said_has_its_default() -> None:
    """Only what has none must be given."""
    assert load(Sample, "POOL_", {"POOL_SERVERS": "a"}) == Sample(servers=("a",))


def test_a_misspelt_variable_is_named_with_the_known_ones() -> None:
    """It would else be a setting that silently does nothing."""
    said = problems(POOL_SERVERS="a", POOL_WARMSIZE="7")

    assert said.startswith(
        "POOL_WARMSIZE: no such setting (there are: POOL_SERVERS, POOL_WARM_SIZE,"
    )


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("POOL_WARM_SIZE", "101", "<= 100"),
        ("POOL_WARM_SIZE", "-1", ">= 0"),
        ("POOL_WARM_SIZE", "many", "`int`"),
        ("POOL_WARM_SIZE", "", "`int`"),
        ("POOL_ACK_WAIT_S", "0", "> 0"),
        ("POOL_RINGS", "yes", "`bool`"),
        ("POOL_CLASS_NAME", "strong", "'strong'"),
        ("POOL_SHARDS", "0,one", "`int`"),
    ],
)
def test_a_value_out_of_its_limit_is_named(name: str, text: str, expected: str) -> None:
    """The variable as it is written in the environment, and what it may be."""
    said = problems(**{"POOL_SERVERS": "a", name: text})

    assert said.startswith(f"{name}: ")
    assert expected in said


def test_an_item_may_hold_commas_and_backslashes() -> None:
    """Patterns of files have them; a backslash before anything else is itself."""
    given = load(Sample, "POOL_", {"POOL_SERVERS": r"a\,b, \\,c\d,\e"})

    assert given.servers == ("a,b", "\\", r"c\d", r"\e")


def test_a_missing_variable_is_named() -> None:
    """As it would have to be written."""
    assert problems() == "POOL_SERVERS: missing"


def test_every_problem_is_named_at_once() -> None:
    """Nobody wants to start a service five times to learn of five problems."""
    said = problems(POOL_WARM_SIZE="-1", POOL_RINGS="maybe", POOL_COLOUR="red")

    names = [problem.partition(":")[0] for problem in said.split("; ")]
    assert names == ["POOL_COLOUR", "POOL_RINGS", "POOL_WARM_SIZE", "POOL_SERVERS"]


word = st.text(
    st.characters(codec="ascii", exclude_categories=["Cc", "Z"]) | st.sampled_from(",\\"),
    min_size=1,
)


@given(
    st.builds(
        Sample,
        servers=st.lists(word, min_size=1, max_size=3).map(tuple),
        warm_size=st.integers(0, 100),
        ack_wait_s=st.floats(0, 1e6, exclude_min=True),
        rings=st.booleans(),
        class_name=st.sampled_from(["auto", "landlock"]),
        shards=st.lists(st.integers(0, 2), max_size=3).map(tuple),
        log_path=st.none() | word,
    )
)
def test_settings_survive_the_environment(settings: Sample) -> None:
    """What is handed to a child process is what it reads."""
    assert load(Sample, "POOL_", to_environ(settings, "POOL_")) == settings
