"""``python -m kunport`` and the ``kunport`` command."""

import gc
import sys

from kunport import cli


def main() -> int:
    """Run the process's command and return its exit status."""
    status = cli.main()
    gc.freeze()  # else Python looks through everything for cycles before it ends, which takes a tenth of a second
    return status


if __name__ == "__main__":
    sys.exit(main())
