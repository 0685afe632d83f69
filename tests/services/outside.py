"""This interpreter by a path outside /tmp, which Iris's local controller gives every task anew."""

import hashlib
import sys
from pathlib import Path


def find_python() -> str:
    """Return this interpreter; where its environment lies under /tmp, by a link in the user's cache."""
    if not sys.prefix.startswith("/tmp/"):
        return sys.executable
    name = hashlib.sha256(sys.prefix.encode()).hexdigest()[:8]
    link = Path.home() / ".cache" / "rlaunch" / f"venv-{name}"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(sys.prefix)
    return str(link / "bin" / Path(sys.executable).name)
