"""Write the validated facts of shipped profiles beside them: `python tools/settle.py [--check]`.

For every cluster plugin whose module says `FACTS`. With `--check` nothing is written, and a file that
is not current is an error.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

import yaml

from rlaunch import discovery, settled


def main(check: bool) -> int:
    """Return the number of files that were not current."""
    stale = 0
    for module in {claim.module for claim in discovery.names().values()}:
        plugin = import_module(module)
        for name, path in getattr(plugin, "FACTS", {}).items():
            model = plugin.rlaunch_cluster().Profile
            data = yaml.safe_load(Path(plugin.PROFILES[name]).read_text(encoding="utf-8"))
            text = json.dumps(settled.settle(model.model_validate(data)), indent=1) + "\n"
            file = Path(path)
            if file.exists() and file.read_text(encoding="utf-8") == text:
                continue
            stale += 1
            print(f"{path} is not current" if check else f"wrote {path}")
            if not check:
                file.write_text(text, encoding="utf-8")
    return stale if check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
