"""Node lists of many shapes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch_slurm_jupiter.nodelist import expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("", []),
        ("jwb[0001-0003,0010]", ["jwb0001", "jwb0002", "jwb0003", "jwb0010"]),
        ("jwb0001,login[1-2]", ["jwb0001", "login1", "login2"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[099-101]", ["n099", "n100", "n101"]),
        ("rack[1-2]node[01-02]", ["rack1node01", "rack1node02", "rack2node01", "rack2node02"]),
        ("a[1]-ib", ["a1-ib"]),
        ("jpbo-001-[01-02],jpbo-112-48", ["jpbo-001-01", "jpbo-001-02", "jpbo-112-48"]),
        ("c[1-2],d[1,3],e5", ["c1", "c2", "d1", "d3", "e5"]),
    ],
)
def test_shapes(text: str, names: list[str]) -> None:
    """Ranges, padding, several brackets and prefixes give the names in the list's order."""
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    "text", ["n[1-", "n]1[", "n[3-1]", "n[a-b]", "n[1-2]]", "a,,b", "n[]", "n[0-999999999]"]
)
def test_what_is_no_list_is_refused(text: str) -> None:
    """A broken list is an error that says what is wrong, never half of the names."""
    with pytest.raises(ValueError, match=r"."):
        expand(text)


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z][a-z-]{0,5}", fullmatch=True),
            st.integers(0, 9990),
            st.integers(0, 9),
            st.integers(1, 5),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_written_lists_read_back(parts: list[tuple[str, int, int, int]]) -> None:
    """A list that was written from names expands to those names."""
    names, texts = [], []
    for prefix, first, more, width in parts:
        numbers = [str(n).zfill(width) for n in range(first, first + more + 1)]
        if len(numbers[-1]) != len(numbers[0]):
            continue
        names += [prefix + n for n in numbers]
        texts.append(f"{prefix}[{numbers[0]}-{numbers[-1]}]" if more else prefix + numbers[0])
    assert list(expand(",".join(texts))) == names


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Arbitrary text gives names or a ValueError, and no name has a bracket that was a range."""
    try:
        names = expand(text)
    except ValueError:
        return
    assert not [n for n in names if re.search(r"\[\d", n)]
