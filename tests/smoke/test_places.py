"""Where the trainer writes: a file system, or a real object store."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.services import s3

from rlaunch.smoke.checkpoints import Checkpoint, CheckpointError, latest, save
from rlaunch.smoke.places import Place, PlaceError

from .conftest import Train


@pytest.fixture(scope="module")
def store() -> Iterator[s3.S3]:
    """A real S3 server."""
    with s3.serve() as running:
        yield running


def given(store: s3.S3, folder: Path) -> dict[str, str]:
    """What a pod of the cluster is given: the address in the environment, the keys in a file."""
    keys = folder / "credentials"
    keys.write_text(
        f"[default]\naws_access_key_id = {store.key_id}\naws_secret_access_key = {store.secret}\n"
    )
    return {
        "AWS_ENDPOINT_URL": store.endpoint, "AWS_REGION": "us-east-1",
        "AWS_SHARED_CREDENTIALS_FILE": str(keys),
        "FSSPEC_S3": json.dumps({"endpoint_url": store.endpoint}),
    }  # fmt: skip


@pytest.fixture
def pod(store: s3.S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """This process has what a pod has."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    env = given(store, tmp_path)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


@pytest.mark.parametrize("scheme", ["file", "s3"])
def test_a_file_is_written_whole_and_read_again(
    scheme: str, store: s3.S3, pod: Mapping[str, str], tmp_path: Path
) -> None:
    """Bytes come back as they were; a later write replaces them; what is not there says so."""
    root = Place(str(tmp_path) if scheme == "file" else f"s3://{store.bucket}/places/")
    place = root / "a b/ü" / "x"
    with pytest.raises(FileNotFoundError):
        place.read()
    for content in (b"\0\xff" * 70_000, b"", b"short"):
        place.write(content)
        assert place.read() == content


def test_a_checkpoint_in_a_store_is_resumed(store: s3.S3, pod: Mapping[str, str]) -> None:
    """Saved to the store and found by its marker, as on a disk; without the marker nothing is there."""
    root = Place(f"s3://{store.bucket}/run-1/checkpoints")
    assert latest(root) is None
    save(root, Checkpoint(5, {"theta": np.arange(6.0)}, {"rewards": [0.5]}))
    place = save(root, Checkpoint(10, {"theta": np.arange(6.0) * 2}, {}))
    assert str(place) == f"s3://{store.bucket}/run-1/checkpoints/global_step_10"
    found = latest(root)
    assert found is not None
    assert (found.step, found.weights["theta"][1]) == (10, 2.0)
    (root / "latest_ckpt_global_step.txt").write(b"99")
    with pytest.raises(CheckpointError, match=r"s3://.*global_step_99"):
        latest(root)


def test_a_store_that_refuses_is_named(
    store: s3.S3, pod: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that may not write, a bucket that is not there and an unknown scheme are errors with the URL."""
    for url in (f"s3://no-such-bucket-{os.getpid()}/x", "gopher://x/y"):
        with pytest.raises(PlaceError, match=url):
            Place(url).write(b"x")
    other = tmp_path / "reader"
    other.write_text(
        f"[default]\naws_access_key_id = {store.reader_id}\naws_secret_access_key = {store.reader_secret}\n"
    )
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(other))
    with pytest.raises(PlaceError, match=f"s3://{store.bucket}/mine"):
        Place(f"s3://{store.bucket}/mine").write(b"x")
    s3fs.S3FileSystem.clear_instance_cache()


def test_the_trainer_writes_to_a_store_and_resumes_from_it(
    train: Train, store: s3.S3, pod: Mapping[str, str]
) -> None:
    """Checkpoints and summary of a gang lie in the store; a second run goes on from there."""
    root = f"s3://{store.bucket}/gang"
    words = (
        f"trainer.ckpt_path={root}/checkpoints", "trainer.ckpt_interval=1", "trainer.resume_mode=latest",
        f"trainer.export_path={root}/exports",
    )  # fmt: skip
    done = train(*words, "trainer.max_steps=2", env=pod)
    assert done.returncode == 0, done.stderr
    assert f"saved checkpoint for global_step_2 to: {root}/checkpoints/global_step_2" in done.stdout
    again = train(*words, "trainer.max_steps=3", env=pod)
    assert "Resumed training from global_step 2" in again.stdout, again.stderr
    assert json.loads((Place(root) / "exports/summary.json").read())["steps"] == 3
    assert not list(Path("/").glob("s3:*"))
