"""Writes the adapters that kunport ships anew, and those of further model types.

python tools/ship_adapters.py [MODEL_TYPE ...]

An adapter is generated from the model's source and the defaults of its configuration. The difference after a change of
kunport is what the change does to adapters.
"""

from __future__ import annotations

import shutil
import sys

from kunport.adapter_folder import GENERATED
from kunport.errors import KunportError, NotPortableError
from kunport_model_adapters.discovery import SHIPPED, shipped_adapters

import kunport


def main() -> int:
    shipped = [adapter.folder.name for adapter in shipped_adapters()]
    refused = 0
    for model_type in sorted({*shipped, *sys.argv[1:]}):
        try:
            folder = kunport.generate_adapter(kunport.analyze(model_type), SHIPPED)
            shutil.rmtree(folder / GENERATED)  # nobody edits these
        except (KunportError, NotPortableError) as error:
            print(f"{model_type}: {error}", file=sys.stderr)
            refused += 1
    return int(refused > 0)


if __name__ == "__main__":
    sys.exit(main())
