"""The way out of nodes without internet, with the real programs: ssh -D to a real sshd, and proxychains4.

The outside is an address of this machine that no pretended node is attached to. Who connects there sees
from which address: a node's own, or the login node's at the other end of the tunnel.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.slurm.processes import commands

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
SERVICE = Path(__file__).resolve().parents[2] / "services" / "sshd.sh"
LOGIN, OUTSIDE = "198.18.77.1", "198.18.78.1"
PORT = 7003


class Outside:
    """Two servers: one tells everybody where he comes from, one proves who it is."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "outside.pem"
        key = folder / "outside.key"
        words = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        words += ["-subj", "/CN=outside", "-addext", f"subjectAltName=IP:{OUTSIDE}", "-days", "2"]
        words += ["-keyout", str(key), "-out", str(self.certificate)]
        subprocess.run(["openssl", "req", *words], check=True, capture_output=True)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(self.certificate, key)
        self.open = True
        self.plain = self._serve(lambda one, peer: one.sendall(f"you are {peer}\n".encode()))
        self.probe = self._serve(self._prove)

    def _prove(self, one: socket.socket, peer: str) -> None:
        if peer in (LOGIN, OUTSIDE):  # the nodes themselves have no way here
            self._tls.wrap_socket(one, server_side=True).close()

    def _serve(self, answer: Callable[[socket.socket, str], None]) -> str:
        listener = socket.create_server((OUTSIDE, 0))
        listener.settimeout(0.2)

        def serve() -> None:
            while self.open:
                try:
                    one, (peer, _) = listener.accept()
                except TimeoutError:
                    continue
                with one:
                    one.settimeout(5)
                    try:
                        answer(one, peer)
                    except OSError:
                        continue
            listener.close()

        threading.Thread(target=serve, daemon=True).start()
        return f"{OUTSIDE}:{listener.getsockname()[1]}"


@pytest.fixture(scope="module")
def outside(slurm: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """The internet."""
    servers = Outside(tmp_path_factory.mktemp("outside"))
    yield servers
    servers.open = False


@pytest.fixture(scope="module")
def config(slurm: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An ssh configuration whose host `login` is a real sshd that the nodes can reach."""
    base = tmp_path_factory.mktemp("sshd")
    env = {**os.environ, "RLAUNCH_SSHD_ADDRESS": LOGIN}
    done = subprocess.run(
        [SERVICE, "up", base], env=env, capture_output=True, text=True, check=True, timeout=120
    )
    yield done.stdout.strip()
    subprocess.run([SERVICE, "down", base], check=False)


def site(outside: Outside, config: str, **tunnel: Any) -> dict[str, Any]:
    """Return the profile fields of a site behind a tunnel."""
    fixed = {"login": "login", "options": ["-F", config], "port": PORT, "wrapper": ["proxychains4"]}
    return {
        "tunnel": {**fixed, "probe": outside.probe, "timeout_s": 10, **tunnel},
        "before": [f"export SSL_CERT_FILE={outside.certificate}"],
    }


def dial(place: str) -> list[str]:
    """Return the arguments that make the toy trainer's driver connect somewhere."""
    return ["--skyrl_override", f"++smoke.dial='{place}'"]


def tunnels() -> list[str]:
    """Return the ssh processes that still listen for a job."""
    found = (words for _, words in commands() if b"-D" in words and words[0].endswith(b"ssh"))
    return [b" ".join(words).decode() for words in found]


def test_the_driver_reaches_the_outside_through_the_tunnel(
    slurm: Any, outside: Outside, config: str
) -> None:
    """The server sees the login node, not the compute node; the gang's own connections stay direct; and
    the tunnel ends with the job."""
    slurm.launch(*dial(outside.plain), name="tunnel", nodes=2, **site(outside, config))
    run = slurm.run_dir("tunnel")
    assert (
        f"dialled {outside.plain}, which says: you are {OUTSIDE}"
        in (run / "logs" / "1" / "0.log").read_text()
    )
    assert f"tunnel at 198.18.77.1{slurm.status('tunnel')['ranks'][0]['node'][1:]}:{PORT}" in (
        slurm.output("tunnel")
    )
    assert tunnels() == []
    sent = (run.parent / run.name / "attempts" / "1" / "proxychains.conf").read_text()
    assert "/255.255.255.0\n" in sent, "the nodes' own network is no matter of the tunnel"


def test_without_the_wrapper_it_would_not(slurm: Any, outside: Outside, config: str) -> None:
    """The same job without proxychains4 connects as the node itself: the test above can fail."""
    slurm.launch(*dial(outside.plain), name="bare", **site(outside, config, wrapper=[]))
    [said] = [
        line.rpartition(" you are ")[2]
        for line in (slurm.run_dir("bare") / "logs" / "1" / "0.log").read_text().splitlines()
        if " you are " in line
    ]
    assert said.startswith("198.18.77.1")
    assert said != LOGIN


def test_through_the_tunnel_from_inside_an_image(
    slurm: Any, outside: Outside, config: str, image: dict[str, Any]
) -> None:
    """The wrapper stands before the container; with its library bound it holds in there too."""
    [library] = list(Path("/usr/lib").glob("*/libproxychains.so.4"))
    binds = [*image["binds"], str(library), str(outside.certificate)]
    changes = {**image, **site(outside, config), "binds": binds}
    slurm.launch(*dial(outside.plain), name="inside", **changes)
    assert f"you are {OUTSIDE}" in (slurm.run_dir("inside") / "logs" / "1" / "0.log").read_text()


def test_an_image_that_loses_the_wrapper(
    slurm: Any, outside: Outside, config: str, image: dict[str, Any]
) -> None:
    """Without its library the wrapper is lost without a word; the job notices, and ends as `tunnel-dead`."""
    binds = [*image["binds"], str(outside.certificate)]
    slurm.launch(name="lost", code=1, **{**image, **site(outside, config), "binds": binds})
    assert slurm.status("lost")["reason"] == "tunnel-dead"
    assert "cannot be reached by a wrapped program" in slurm.output("lost")


def test_a_tunnel_that_cannot_be_made_ends_the_job_before_ray(
    slurm: Any, outside: Outside, config: str, tmp_path: Path
) -> None:
    """A login node that nobody answers at is `tunnel-failed`, with ssh's own words, and nothing ran."""
    with socket.create_server((LOGIN, 0)) as closed:
        port = closed.getsockname()[1]
    dead = tmp_path / "ssh_config"
    text = Path(config).read_text().splitlines()
    dead.write_text("\n".join(f"  Port {port}" if "Port " in row else row for row in text) + "\n")
    began = time.monotonic()
    slurm.launch(name="dead", code=1, **site(outside, str(dead)))
    assert time.monotonic() - began < 60
    seen = slurm.status("dead")
    assert (seen["state"], seen["reason"], seen["exit_code"]) == ("FAILED", "tunnel-failed", 84)
    assert "Connection refused" in slurm.output("dead")
    assert list((slurm.run_dir("dead") / "logs").glob("*/*.log")) == []
    diagnosed = slurm.rlaunch("diagnose", "dead")
    assert (
        "the tunnel out of the compute nodes could not be made"
        in diagnosed.stdout + diagnosed.stderr
    )


def test_a_key_that_is_not_let_in(
    slurm: Any, outside: Outside, config: str, tmp_path: Path
) -> None:
    """A login node that refuses the key is `tunnel-failed` too: nobody is there to type a password."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    other = tmp_path / "ssh_config"
    text = Path(config).read_text().splitlines()
    other.write_text("\n".join(row for row in text if "IdentityFile" not in row) + "\n")
    options = ["-F", str(other), "-i", str(key)]
    slurm.launch(name="nokey", code=1, **site(outside, config, options=options))
    assert slurm.status("nokey")["reason"] == "tunnel-failed"
    assert "Permission denied" in slurm.output("nokey")


def test_an_outside_that_cannot_prove_itself(slurm: Any, outside: Outside, config: str) -> None:
    """A tunnel that leads to a server without a certificate that verifies is `tunnel-dead`, before Ray."""
    changes = site(outside, config)
    slurm.launch(name="untrusted", code=1, **{**changes, "before": []})
    seen = slurm.status("untrusted")
    assert seen["reason"] == "tunnel-dead", slurm.output("untrusted")
    assert "certificate verify failed" in slurm.output("untrusted")
    assert tunnels() == []
