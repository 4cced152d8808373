"""Run as a script: checks the kernels of files, interpreted (``check``) or compiled for a device (``compile``)."""

import json
import os
import sys
from pathlib import Path

mode, *files = sys.argv[1:]
if mode == "check":
    os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: E402
from kunport_model_adapters import row_kernels  # noqa: E402

found: dict[str, object] = {}
for file in map(Path, files):
    for name, case in row_kernels.cases(file).items():
        key = f"{file.parent.name}/{name}"
        if mode == "check":
            found[key] = row_kernels.check(file, name)
            continue
        from kunport_runtime.bench.ahead import compiling_only

        sys.modules[case.kernel.__module__].launches = lambda x: True  # type: ignore[attr-defined]
        for dtype in (torch.float32, torch.bfloat16):
            with compiling_only() as compiled:
                case.kernel(*case.arguments(4, case.sizes[-1], dtype, 0, "cpu"))
            found[f"{key} {dtype}"] = len(compiled[0].asm["cubin"]) if len(compiled) == 1 else 0
print(json.dumps(found))
