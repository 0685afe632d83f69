"""The shared directory, the thread that asks it, and the look-out."""

from __future__ import annotations

import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rlaunch.node.courier import Courier
from rlaunch.node.lookout import Lookout
from rlaunch.node.loop import Loop
from rlaunch.node.reasons import Ending
from rlaunch.node.store import DirectoryStore, Store, StoreError, open_store


class SlowStore(DirectoryStore):
    """A directory whose answers can be held back or refused."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.gate = threading.Event()
        self.gate.set()
        self.refusals = 0
        self.asked = 0

    def read(self, key: str) -> bytes | None:
        self.asked += 1
        self.gate.wait(20)
        if self.refusals:
            self.refusals -= 1
            raise StoreError("503 slow down")
        return super().read(key)


def test_what_is_written_is_read_and_listed(tmp_path: Path) -> None:
    """Objects come back whole, names are those right under the prefix."""
    store = DirectoryStore(str(tmp_path / "new"))
    assert store.list("") == {}
    assert store.read("a.json") is None
    store.write("a.json", b"1")
    store.write("ranks/1/0.json", b"2")
    assert store.read("a.json") == b"1"
    assert set(store.list("ranks/1")) == {"0.json"}
    assert "a.json" in store.list("")


def test_tag_changes_with_every_write(tmp_path: Path) -> None:
    """A record that is written again with the same text is seen as new."""
    store = DirectoryStore(str(tmp_path))
    tags = set()
    for _ in range(5):
        store.write("a", b"same")
        tags.add(store.list("")["a"])
    assert len(tags) == 5


def test_only_one_can_create(tmp_path: Path) -> None:
    """Of many that create one name at once, exactly one succeeds, and its text stands."""
    store = DirectoryStore(str(tmp_path))
    won: list[int] = []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        if store.create("claim", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.read("claim") == str(won[0]).encode()
    assert set(store.list("")) == {"claim"}


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    """Records hold the token of the attempt, so that other users of a shared directory see nothing."""
    store = DirectoryStore(str(tmp_path))
    store.write("a", b"1")
    store.create("b", b"1")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "ab"] == [0o600, 0o600]


def test_claim_works_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that has no hard links still lets only one create."""

    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr("os.link", refuse)
    store = DirectoryStore(str(tmp_path))
    assert store.create("claim", b"1")
    assert not store.create("claim", b"2")
    assert store.read("claim") == b"1"
    assert set(store.list("")) == {"claim"}


def test_trouble_of_the_disk_is_a_store_error(tmp_path: Path) -> None:
    """A place that is no directory is an error to try again, not a crash."""
    (tmp_path / "file").write_text("")
    store = DirectoryStore(str(tmp_path / "file"))
    for call in (
        lambda: store.write("a", b""),
        lambda: store.create("a", b""),
        lambda: store.list(""),
    ):
        with pytest.raises(StoreError):
            call()


def test_a_full_disk_is_not_littered(tmp_path: Path) -> None:
    """A write that does not fit leaves nothing behind, however often it is tried."""
    store = DirectoryStore(str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        for call in (store.write, store.create):
            with pytest.raises(StoreError, match="large"):
                call("a", bytes(100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert list(tmp_path.iterdir()) == []


def test_unknown_scheme_is_refused(tmp_path: Path) -> None:
    """A rendezvous place that this agent has no store for is a mistake in the flags."""
    with pytest.raises(Ending, match="bad-flags"):
        open_store("gs://bucket/x")
    assert isinstance(open_store(f"file://{tmp_path}"), DirectoryStore)


def test_courier_tries_again_until_it_works(tmp_path: Path) -> None:
    """A store that answers 503 twice delays a request and does not fail it."""
    store, loop = SlowStore(str(tmp_path)), Loop()
    store.write("a", b"1")
    store.refusals = 2
    assert Courier(store, loop).read("a", 20) == b"1"
    assert store.asked == 3


def test_courier_gives_up_with_the_stores_words(tmp_path: Path) -> None:
    """A store that never works ends the attempt with `store-failed` and what it said."""
    store, loop = SlowStore(str(tmp_path)), Loop()
    store.refusals = 1000
    with pytest.raises(Ending) as caught:
        Courier(store, loop).read("a", 1.0)
    assert caught.value.outcome.reason == "store-failed"
    assert "503 slow down" in caught.value.outcome.detail


def test_hanging_store_blocks_neither_loop_nor_last_words(tmp_path: Path) -> None:
    """While one request hangs, timers go on, and a later write gets a thread of its own."""
    store, loop = SlowStore(str(tmp_path)), Loop()
    courier = Courier(store, loop)
    store.gate.clear()
    courier.ask(lambda it: it.read("a"))
    beats: list[float] = []
    loop.every(0.05, lambda: beats.append(time.monotonic()))
    loop.until(lambda: len(beats) > 45, 10)
    began = time.monotonic()
    courier.write("last", b"words", 1.5)
    assert time.monotonic() - began < 1.0
    assert (tmp_path / "last").read_bytes() == b"words"
    store.gate.set()


def test_drafts_are_spaced_and_the_newest_wins(tmp_path: Path) -> None:
    """Five phases within a moment are two writes, and the last one is what stands."""
    loop = Loop()
    courier = Courier(DirectoryStore(str(tmp_path)), loop)
    for phase in range(5):
        courier.draft("rank", str(phase).encode())
        loop.until(lambda: False, 0.02)
    loop.until(lambda: (tmp_path / "rank").read_bytes() == b"4", 5)
    assert (tmp_path / "rank").read_bytes() == b"4"
    assert courier.requests == 2


def test_final_write_is_not_overtaken_by_a_draft(tmp_path: Path) -> None:
    """A draft that still waits is forgotten once the same object is written for good."""
    loop = Loop()
    courier = Courier(DirectoryStore(str(tmp_path)), loop)
    courier.draft("rank", b"starting")
    loop.until(lambda: False, 0.05)
    courier.draft("rank", b"stopping")
    courier.write("rank", b"ended", 5)
    loop.until(lambda: False, 1.3)
    assert (tmp_path / "rank").read_bytes() == b"ended"


def test_lookout_reads_only_what_is_new(tmp_path: Path) -> None:
    """An object is read when it appears and when it changes, not at every look."""
    store, loop = SlowStore(str(tmp_path)), Loop()
    taken: list[tuple[str, Any]] = []
    lookout = Lookout(
        loop,
        Courier(store, loop),
        folder="ranks",
        wanted=lambda name: name.endswith(".json"),
        take=lambda name, body: taken.append((name, body)),
        pause=lambda: 0.05,
    )
    lookout.look()
    assert loop.until(lambda: lookout.looked, 5)
    store.write("ranks/0.json", b'{"a": 1}')
    store.write("ranks/other", b"{}")
    assert loop.until(lambda: taken, 5)
    loop.until(lambda: False, 0.5)
    store.write("ranks/0.json", b"rubbish")
    assert loop.until(lambda: len(taken) == 2, 5)
    assert taken == [("0.json", {"a": 1}), ("0.json", {})]
    assert store.asked == 2


def test_lookout_survives_errors(tmp_path: Path) -> None:
    """A look that fails is told and repeated; the object is read in the end."""
    store, loop = SlowStore(str(tmp_path)), Loop()
    store.write("0.json", b'{"a": 1}')
    store.refusals = 3
    taken: list[Any] = []
    lookout = Lookout(
        loop,
        Courier(store, loop),
        folder="",
        wanted=lambda name: True,
        take=lambda name, body: taken.append(body),
        pause=lambda: 0.02,
    )
    lookout.look()
    assert loop.until(lambda: taken, 5)
    assert taken == [{"a": 1}]
    assert loop.until(lambda: lookout.looked, 5)


def test_store_is_the_whole_interface() -> None:
    """Another store has four methods to write and nothing else."""
    assert Store.__abstractmethods__ == {"list", "read", "write", "create"}
