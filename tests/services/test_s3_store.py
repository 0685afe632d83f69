"""The S3 rendezvous store against a real S3 server, through boto3 and through our own client."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.services.s3 import S3, serve

from rlaunch.node import s3
from rlaunch.node.s3_client import SignedClient
from rlaunch.node.s3_place import read_keys, read_place
from rlaunch.node.s3_sign import Keys
from rlaunch.node.store import Store, StoreError

pytestmark = pytest.mark.e2e
CLIENTS = ("signed", "boto3")


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    with serve() as running:
        yield running


def open_as(
    kind: str, env: dict[str, str], prefix: str = "run/a", bucket: str = "rdzv", limit: float = 10
) -> s3.S3Store:
    place, keys = read_place(f"s3://{bucket}/{prefix}", env), read_keys(env)
    if kind == "signed":
        return s3.S3Store(place, SignedClient(place, keys, limit))
    client = s3.choose_client(place, keys, limit)
    assert type(client).__name__ == "BotoClient"
    return s3.S3Store(place, client)


@pytest.mark.parametrize("kind", CLIENTS)
def test_objects_round_trip(server: S3, kind: str) -> None:
    """What is written is read, listed by its last name with a tag that changes, and missing is None."""
    store: Store = open_as(kind, server.env, f"rt-{kind}")
    assert store.read("ray_head.json") is None
    assert store.list("ranks/0") == {}
    store.write("ranks/0/1.json", "é".encode())
    store.write("ranks/0/deeper/2.json", b"not right under it")
    first = store.list("ranks/0")
    assert list(first) == ["1.json"]
    store.write("ranks/0/1.json", b"changed")
    assert store.list("ranks/0")["1.json"] != first["1.json"]
    assert store.read("ranks/0/1.json") == b"changed"


@pytest.mark.parametrize("kind", CLIENTS)
def test_one_winner(server: S3, kind: str) -> None:
    """Of sixteen that create the same object at once exactly one succeeds."""
    store = open_as(kind, server.env, f"race-{kind}")
    for turn in range(2):
        with ThreadPoolExecutor(16) as pool:
            won = list(
                pool.map(
                    lambda i, t=turn: store.create(f"claims/{t}.json", str(i).encode()), range(16)
                )
            )
        assert won.count(True) == 1
        assert store.read(f"claims/{turn}.json") == str(won.index(True)).encode()


def test_listing_has_pages(server: S3) -> None:
    """More names than one page holds (a thousand) are all listed, by both clients."""
    names = {f"{i:04d}" for i in range(1002)}
    store = open_as("signed", server.env, "pages")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.write(f"p/{name}", b"x"), names))
    for kind in CLIENTS:
        assert open_as(kind, server.env, "pages").list("p").keys() == names


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "403 SignatureDoesNotMatch"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "403 InvalidAccessKeyId"),
        ({"AWS_ACCESS_KEY_ID": "rokey", "AWS_SECRET_ACCESS_KEY": "rosecret"}, "403 AccessDenied"),
    ],
)
def test_refusals_name_the_place(server: S3, kind: str, change: dict[str, str], said: str) -> None:
    """A refused write says what S3 said, with endpoint, bucket and style, and no secret."""
    store = open_as(kind, {**server.env, **change})
    with pytest.raises(StoreError, match=said) as caught:
        store.write("x", b"")
    text = str(caught.value)
    assert server.endpoint in text
    assert "`rdzv`" in text
    assert "path-style" in text
    assert "wrong" not in text
    assert "rosecret" not in text


@pytest.mark.parametrize("kind", CLIENTS)
def test_missing_bucket(server: S3, kind: str) -> None:
    """A bucket that does not exist is an error for reading too, not an empty place."""
    env = {**server.env, "AWS_ACCESS_KEY_ID": "admin", "AWS_SECRET_ACCESS_KEY": "adminsecret"}
    store = open_as(kind, env, bucket="marin-na")
    for ask in (lambda: store.read("x"), lambda: store.list(""), lambda: store.write("x", b"")):
        with pytest.raises(StoreError, match="NoSuchBucket"):
            ask()


@pytest.mark.parametrize("kind", CLIENTS)
def test_hung_store(kind: str) -> None:
    """A store that takes the connection and never answers costs the limit and no more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        env = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{listener.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
        }
        started = time.monotonic()
        with pytest.raises(StoreError, match="rdzv"):
            open_as(kind, env, limit=2).write("x", b"")
        assert time.monotonic() - started < 4


def test_dripping_store() -> None:
    """A store that sends one byte a second is given up at the limit, although its socket never idles."""

    class Drip(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # the name http.server calls
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            for _ in range(20):
                self.wfile.write(b"x")
                time.sleep(0.5)

        def log_request(self, code: object = "-", size: object = "-"):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Drip)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        env = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
        }
        started = time.monotonic()
        with pytest.raises(StoreError):
            open_as("signed", env, limit=2).read("x")
        assert time.monotonic() - started < 4
    finally:
        server.shutdown()
        server.server_close()


def test_wrong_clock(server: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own client follows the server's clock where this machine's is an hour off."""
    real = time.time
    store = open_as("signed", server.env, "clock")
    monkeypatch.setattr("rlaunch.node.s3_client.time.time", lambda: real() - 3600)
    store.write("x", b"late")
    assert store.read("x") == b"late"


def test_keys_from_file(server: S3, tmp_path: Path) -> None:
    """Without keys in the environment, those of AWS_SHARED_CREDENTIALS_FILE are used."""
    path = tmp_path / "keys"
    path.write_text("[default]\naws_access_key_id = rwkey\naws_secret_access_key = rwsecret\n")
    env = {k: v for k, v in server.env.items() if "KEY" not in k}
    store = open_as("signed", {**env, "AWS_SHARED_CREDENTIALS_FILE": str(path)}, "file")
    store.write("x", b"1")
    assert store.read("x") == b"1"
    assert "rwsecret" not in repr(Keys("rwkey", "rwsecret"))


def test_probe_of_preflight(server: S3) -> None:
    """The plugin's probe writes, reads and deletes with the job's keys, and says what refuses them."""
    from types import SimpleNamespace

    from rlaunch.errors import ClusterError
    from rlaunch_iris import storage

    told = {
        "key_id": "CW_KEY_ID", "key_secret": "CW_KEY_SECRET", "outside_endpoint": server.endpoint,
        "addressing": "path", "region": "us-east-1",
    }  # fmt: skip
    paths = SimpleNamespace(rendezvous="s3://rdzv/iris/run/rendezvous")
    plan = SimpleNamespace(run=SimpleNamespace(profile={"storage": told}, paths=paths))
    good = {"CW_KEY_ID": server.key_id, "CW_KEY_SECRET": server.secret}
    assert storage.probe(plan, good) == ""  # type: ignore[arg-type]  # the parts that it reads
    assert open_as("signed", server.env, "iris/run/rendezvous").list("probe") == {}
    reader = {"CW_KEY_ID": server.reader_id, "CW_KEY_SECRET": server.reader_secret}
    with pytest.raises(ClusterError, match=r"iris\.storage-refused.*403 AccessDenied.*path-style"):
        storage.probe(plan, reader)  # type: ignore[arg-type]  # as above
