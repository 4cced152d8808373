"""``python -m kunport`` and the ``kunport`` command."""

import sys

from kunport.cli import main

if __name__ == "__main__":
    sys.exit(main())
