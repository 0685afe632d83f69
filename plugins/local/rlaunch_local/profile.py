"""The facts of a `local` profile, beside those that every cluster has."""

from __future__ import annotations

from pydantic import Field

from rlaunch.profiles import Profile, Size


class LocalProfile(Profile):
    """One machine that pretends to be several nodes. Sizes are texts such as `128MiB`."""

    temp_root: str = "/tmp"  # noqa: S108  # a private directory is made in it, never a fixed name
    """Ray's session of a run lies in a directory of its own in here; it must be short."""
    object_store: Size = "128MiB"
    """Ray's object store per node, in /dev/shm."""
    node_needs: Size = "800MiB"
    """Memory that one pretended node takes; preflight wants it free for every node."""
    min_disk: Size = "2GiB"
    """Preflight wants so much free in the run directory's file system."""
    first_port: int = Field(default=20000, ge=1024, le=32000)
    """Ports are taken from here up to 32767."""
    ports_per_node: int = Field(default=96, ge=32, le=512)
    """Of these, 8 are for Ray and the agent, one is the supervisor's, the rest for worker processes."""
    settle_s: float = Field(default=2, ge=0)
    """After an agent failed, the others have so long to end by themselves before SIGTERM."""
    farewell_s: float = Field(default=10, ge=0)
    """After rank 0 succeeded, the others have so long to end by themselves before SIGTERM."""
    inherit: tuple[str, ...] = ("PATH", "HOME", "USER", "LANG", "LC_*", "TMPDIR", "TZ")
    """Names taken from the operator's shell for the job, `*` at the end for a prefix; no others. Storage
    credentials (`AWS_*`, `R2_*`) and what rlaunch sets itself are never among them."""
