"""Generated kernels give what their references give, and compile for a device that is not here."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kunport.api import analyze
from kunport_codegen.emission import emit
from kunport_codegen.emission.kernels import kernel_file
from kunport_codegen.expression import Expr, Scalar
from kunport_codegen.graph import DType, Location, Ref
from kunport_codegen.lowering.flow import Flow, Layout, Op
from kunport_codegen.lowering.rowwise import _MAPS, REDUCTIONS, fuse_rows
from kunport_codegen.lowering.structure import Body

PROCESS = Path(__file__).with_name("row_kernel_process.py")
HERE = Location("model.py", 1)
MODELS = ("gpt_neo", "minimax_m3_vl_text", "nemotron_h", "phimoe", "qwen2_moe", "falcon_h1")
NUMBER = Scalar(0.5, Expr("field", ("some.multiplier",)))


def op(name: str, result: int, *args: Any, **kwargs: Any) -> Op:
    return Op(name, args, kwargs, [result], "", HERE)


def every_operator() -> list[Op]:
    """Each operator in each of its forms, on values 0 and 1 as wide as a row."""
    x, y = Ref(0), Ref(1)
    forms = [(name, (x, y), {}) for name, (count, _) in _MAPS.items() if count == 2 and name not in ("pow", "to")]
    forms = [form for form in forms if not form[0].startswith("clamp")]
    forms += [(name, (x,), {}) for name, (count, _) in _MAPS.items() if count == 1]
    forms += [("pow", (x, power), {}) for power in (2, 3.0, 0.5, -0.5, -1)]
    forms += [("gelu", (x,), {"approximate": "tanh"}), ("to", (x, DType("float32")), {})]
    forms += [("clamp", (x, -1.0, NUMBER), {}), ("clamp", (x,), {"max": 0.25}), ("clamp", (x, y, None), {})]
    forms += [("clamp_min", (x, -0.5), {}), ("clamp_max", (x,), {"max": NUMBER})]
    forms += [("sub", (2.0, x), {}), ("div", (x, NUMBER), {}), ("mul", (-3, x), {})]
    forms += [(name, (x,), {"dim": -1, "keepdim": True}) for name in sorted(REDUCTIONS)]
    return [op(name, 2, *args, **kwargs) for name, args, kwargs in forms]


def file_of(step: Op, dtype: str) -> str:
    """The kernel of a step and what makes a chain of it."""
    flow = Flow(SimpleNamespace(), [], 4)  # type: ignore[arg-type]
    row = step.name in REDUCTIONS
    flow.layouts = dict.fromkeys(range(5), Layout(True, (8,))) | ({2: Layout(True, (1,))} if row else {})
    wide = {value: DType("float32") for value in (2, 3, 4)} if step.name in ("to", "float") else {}
    flow.dtypes = dict.fromkeys(range(5), DType(dtype)) | wide
    steps = [step, op("mul", 3, Ref(2), Ref(0)), op("neg", 4, Ref(3))]
    body = Body("m", f"The{step.name.title()}", HERE, [0, 1], [4], steps)
    fuse_rows(flow, body)
    model: Any = SimpleNamespace(
        dtypes=flow.dtypes, layouts=flow.layouts, root=body, graph=SimpleNamespace(architecture="X", model_type="x")
    )
    return kernel_file(model)


@cache
def files(folder: Path) -> list[str]:
    """The kernels of every operator, and those of whole models."""
    found = []
    texts = {f"{step.name}{place}": file_of(step, "model") for place, step in enumerate(every_operator())}
    texts |= {model: emit(analyze(model).graph)["kernels.py"] for model in MODELS}
    for name, text in texts.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "kernels.py").write_text(text)
        found.append(str(folder / name / "kernels.py"))
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return files(tmp_path_factory.mktemp("kernels"))


def run(mode: str, written: list[str]) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(PROCESS), mode, *written], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_kernel_gives_what_its_reference_gives(written: list[str]) -> None:
    found = run("check", written)
    assert len(found) >= len(written)
    assert {name: said for name, said in found.items() if said} == {}


def test_every_kernel_compiles_for_a_device(written: list[str]) -> None:
    found = run("compile", written)
    assert len(found) >= 2 * len(written)
    assert all(size > 1000 for size in found.values()), found


def test_a_kernel_that_is_wrong_is_told(tmp_path: Path) -> None:
    text = emit(analyze("gpt_neo").graph)["kernels.py"]
    changes = {"constant": ("0.044715 * v1", "0.0444 * v1"), "mask": ("mask=inside)", "mask=inside & (columns != 36))")}
    for name, (right, wrong) in changes.items():
        place = tmp_path / name / "kernels.py"
        place.parent.mkdir()
        assert right in text
        place.write_text(text.replace(right, wrong))
    found = run("check", [str(tmp_path / name / "kernels.py") for name in changes])
    assert len(found) == 2
    assert all("off by" in said[0] or "NaN" in said[0] for said in found.values())


def test_a_model_without_chains_has_no_file_of_kernels() -> None:
    assert "kernels.py" not in emit(analyze("llama").graph)


def test_a_number_is_called_as_its_field_and_names_that_are_taken_are_not() -> None:
    text = file_of(op("clamp_max", 2, Ref(0), NUMBER), "model")
    assert "def the_clamp_max_rows(x: torch.Tensor, multiplier: float)" in text
    odd = Scalar(0.5, Expr("field", ("some.weight",)))
    assert "number: float)" in file_of(op("clamp_max", 2, Ref(0), odd), "model")
