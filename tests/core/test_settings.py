"""Reading of typed settings."""

from typing import Any

import pytest

from rlaunch import settings


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3600", 3600), (90, 90), ("90m", 5400), ("1h30m", 5400), ("2d", 172800), ("11:59:00", 43140),
        ("1-12:00:00", 129600), ("2:30", 9000), ("1.5h", 5400),
    ],
)  # fmt: skip
def test_durations(text: Any, seconds: int):
    """Seconds, units, wall-clock and SLURM's day form are read."""
    assert settings.read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1x", "-5", "0", "1:2:3:4", True, "1h x", "h"])
def test_bad_durations(text: Any):
    """Anything else is refused with an example."""
    with pytest.raises(ValueError, match="a time such as"):
        settings.read_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GiB", 1 << 30),
        ("512GB", 512 * 10**9),
        ("21800Gi", 21800 << 30),
        ("100", 100),
        ("1.5 KiB", 1536),
    ],
)
def test_sizes(text: str, size: int):
    """Decimal and binary units and plain bytes are read."""
    assert settings.size_in_bytes(text) == size
    assert settings.read_size(text) == text


@pytest.mark.parametrize("text", ["", "much", "GiB", "-1GB", "1 GiB GiB", True])
def test_bad_sizes(text: Any):
    """Anything else is refused with an example."""
    with pytest.raises(ValueError, match="a size such as"):
        settings.read_size(text)


@pytest.mark.parametrize(
    ("read", "bad"),
    [
        (settings.read_int, "1.5"), (settings.read_int, True), (settings.read_int, 2.5),
        (settings.read_positive, 0),
        (settings.read_count, -1), (settings.read_cores, "0"), (settings.read_cores, "nan"),
        (settings.read_cores, "inf"), (settings.read_bool, "maybe"), (settings.read_priority, "urgent"),
        (settings.read_text, "  "), (settings.read_size, "0"),
    ],
)  # fmt: skip
def test_bad_values(read: Any, bad: Any):
    """Each reader refuses what it cannot mean."""
    with pytest.raises(ValueError):
        read(bad)


def test_a_slip_of_the_keyboard_is_no_number_of_nodes():
    """More nodes than any machine has are refused at once."""
    assert settings.read_nodes(str(settings.MOST_NODES)) == settings.MOST_NODES
    with pytest.raises(ValueError, match="at most"):
        settings.read_nodes("99999999999999999999")


def test_good_values():
    """Each reader takes its usual forms."""
    assert settings.read_int("7") == 7
    assert settings.read_positive(1.0) == 1
    assert settings.read_cores("0.5") == 0.5
    assert settings.read_bool("off") is False
    assert settings.read_priority("batch") == "batch"
    assert settings.read_size("auto") == "auto"


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("cpu=48", ("cpu", 48)),
        ("env.A=a b", ("env.A", "a b")),
        ("x=[1]", ("x", [1])),
        ("n=", ("n", "")),
    ],
)
def test_set(text: str, pair: tuple[str, Any]):
    """`--set` reads JSON where it is JSON, and text otherwise."""
    assert settings.parse_set(text) == pair


@pytest.mark.parametrize("text", ["cpu", "=1"])
def test_set_without_a_name_or_value(text: str):
    """`--set` without `=` or without a name is refused."""
    with pytest.raises(ValueError, match="SETTING=VALUE"):
        settings.parse_set(text)
