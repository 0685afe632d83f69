"""`python -m rlaunch` is the command `rlaunch`."""

import sys

from rlaunch.cli import main

if __name__ == "__main__":
    sys.exit(main())
