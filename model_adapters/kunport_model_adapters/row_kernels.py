"""What generated row-wise kernels stand on: when they run, how rows lie, and how they are checked and timed.

``python -m kunport_model_adapters.row_kernels kernels.py`` checks the kernels of a file and, on an accelerator, times
each beside its reference and a copy of the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine whose engine runs without Triton takes the references

    class _Absent:
        """Stands for Triton where a file of kernels is only imported."""

        constexpr = None

        @staticmethod
        def jit(function: Any) -> Any:
            return function

    triton = tl = _Absent

_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_REFERENCE_ONLY = os.environ.get("KUNPORT_DISABLE_CUSTOM_OPS", "") not in ("", "0")
_HAS_TRITON = hasattr(triton, "compile")
_DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
# Largest difference from the reference, over the value where that is above 1: a rounding may fall to the other side.
_TOLERANCE = {torch.float32: 3e-5, torch.bfloat16: 2**-6, torch.float16: 2**-9}
_ROWS = (1, 5, 33)


@triton.jit
def sigmoid(x):  # type: ignore[no-untyped-def]
    """1 / (1 + exp(-x)), x float32."""
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def tanh(x):  # type: ignore[no-untyped-def]
    """Tanh of float32: by exp(-2 |x|), and near 0, where that cancels, by its series to the fifth power."""
    magnitude = tl.abs(x)
    square = x * x
    decay = tl.exp(-2.0 * magnitude)
    far = (1.0 - decay) / (1.0 + decay)
    near = magnitude * (1.0 - square * (0.3333333333333333 - square * 0.13333333333333333))
    y = tl.where(magnitude < 0.05, near, far)
    return tl.where(x < 0.0, -y, y)


def launches(x: torch.Tensor) -> bool:
    """Whether a kernel takes this tensor, rather than the reference: on a device of Triton's, or interpreted."""
    return _HAS_TRITON and not _REFERENCE_ONLY and x.numel() > 0 and (x.device.type != "cpu" or _INTERPRETED)


def rows(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """``[..., width]`` as rows that each lie in one piece, copied if they do not, and the step between two."""
    flat = x.reshape(-1, x.shape[-1])
    if flat.stride(1) != 1:
        flat = flat.contiguous()
    return flat, flat.stride(0)


def triton_dtype(dtype: torch.dtype) -> Any:
    """Triton's name for a floating dtype."""
    return getattr(tl, _DTYPES[dtype])


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel and what it is given.

    Attributes:
        kernel, reference: functions of the same parameters.
        given: for each parameter ``KIND DTYPE`` of a tensor (``full``, ``row`` or ``column``; ``model`` or
            ``float32``), or a number.
        sizes: of a token; the last is a row.
    """

    kernel: Callable[..., torch.Tensor]
    reference: Callable[..., torch.Tensor]
    given: tuple[str | float, ...]
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.kernel.__name__

    def arguments(self, tokens: int, width: int, dtype: torch.dtype, seed: int, device: str) -> list[Any]:
        """Random arguments: normal, with some values far out, and rows that do not lie side by side."""
        draw = torch.Generator().manual_seed(seed)
        shape = (tokens, *self.sizes[:-1], width)
        found: list[Any] = []
        for each in self.given:
            if not isinstance(each, str):
                found.append(each)
                continue
            kind, name = each.split()
            size = {"full": (*shape[:-1], width + 3), "row": (*shape[:-1], 1), "column": (width,)}[kind]
            values = torch.randn(size, generator=draw) * 10 ** torch.empty(size).uniform_(-1, 1, generator=draw)
            values = values.to(dtype if name == "model" else torch.float32).to(device)
            found.append(values[..., :width] if kind == "full" else values)
        return found


def cases(file: Path) -> dict[str, Case]:
    """The cases of a file of kernels, by name. The file is run."""
    spec = spec_from_file_location(f"kunport_row_kernels_{file.parent.name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return {case.name: case for case in module.CASES}


def names(file: Path) -> list[str]:
    """The names of a file's kernels."""
    return list(cases(file))


def check(file: Path, name: str, *, seed: int = 0, device: str | None = None) -> list[str]:
    """Run a kernel and its reference on the same arguments, in float32 and bfloat16; a sentence for each difference.

    Without an accelerator the kernels must be interpreted: ``TRITON_INTERPRET=1`` in the environment before Triton is
    imported.

    Raises:
        RuntimeError: nothing would run the kernel.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    case = cases(file)[name]
    if not launches(torch.empty(1, device=device)):
        raise RuntimeError("No device runs Triton's kernels: set TRITON_INTERPRET=1 before Triton is imported.")
    if device == "cpu":
        from kunport_runtime.providers.triton.interpreted import mend

        mend()
    return list(_differences(case, seed, device))


def _differences(case: Case, seed: int, device: str) -> Iterator[str]:
    for dtype in (torch.float32, torch.bfloat16):
        for tokens in _ROWS:
            for width in dict.fromkeys((min(case.sizes[-1], 256), 37)):
                arguments = case.arguments(tokens, width, dtype, seed + tokens, device)
                got, wanted = case.kernel(*arguments), case.reference(*arguments)
                where = f"{case.name} on {tokens} tokens of {width} in {_DTYPES[dtype]}"
                if got.dtype != wanted.dtype or got.shape != wanted.shape:
                    yield f"{where}: {got.dtype} {list(got.shape)}, not {wanted.dtype} {list(wanted.shape)}"
                elif not torch.equal(got.isnan(), wanted.isnan()):
                    yield f"{where}: NaN where the reference has none, or the other way round"
                elif (error := _error(got, wanted)) > _TOLERANCE[dtype]:
                    yield f"{where}: off by {error:.1e} ({_TOLERANCE[dtype]:.1e} is allowed)"


def _error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    one, other = (torch.nan_to_num(each.double(), posinf=1e38, neginf=-1e38) for each in (got, wanted))
    return float(((one - other).abs() / other.abs().clamp(min=1.0)).max())


def main() -> int:
    """Check and time the kernels of a file; 1 where one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m kunport_model_adapters.row_kernels", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tokens", type=int, default=8192, help="rows to time with (8192)")
    options = parser.parse_args()
    wrong = 0
    for name, case in cases(options.file).items():
        found = check(options.file, name)
        wrong += bool(found)
        print(f"{name}: {'; '.join(found) or 'right'}{_times(case, options.tokens)}")
    return 1 if wrong else 0


def _times(case: Case, tokens: int) -> str:
    if not torch.cuda.is_available():
        return "; not timed: there is no accelerator"
    arguments = case.arguments(tokens, case.sizes[-1], torch.bfloat16, 0, "cuda")
    tensors = [each.contiguous() for each in arguments if isinstance(each, torch.Tensor)]
    moved = sum(each.nbytes for each in tensors) + case.reference(*arguments).nbytes
    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    bench = triton.testing.do_bench
    kernel = bench(lambda: case.kernel(*arguments), return_mode="median")
    reference = bench(lambda: case.reference(*arguments), return_mode="median")
    copy = bench(source.clone, return_mode="median")
    return f"; {1000 * kernel:.0f} us, torch {1000 * reference:.0f} us, {copy / kernel:.2f} of a copy of the same bytes"


if __name__ == "__main__":
    sys.exit(main())
