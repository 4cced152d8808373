"""Tables that a constructor computes, as statements."""

from __future__ import annotations

from collections.abc import Mapping

from kunport_codegen.emission.forward import Forward
from kunport_codegen.emission.identifiers import identifier
from kunport_codegen.emission.values import render
from kunport_codegen.expression import Expr
from kunport_codegen.graph import DType
from kunport_codegen.lowering.constants import Constant
from kunport_codegen.lowering.flow import Layout, Op

# While a model is built, this is the dtype that it is served in.
DEFAULT_DTYPE = "torch.get_default_dtype()"


def table_lines(
    name: str,
    table: Constant,
    layouts: Mapping[int, Layout],
    dtypes: Mapping[int, DType | None],
    names: Mapping[Expr, str],
) -> list[str]:
    """The lines that compute a table and register it as a buffer, which is no part of the checkpoint."""

    def constant(step: Op) -> str:
        dtype = step.kwargs.get("dtype")
        typed = f", dtype=torch.{identifier(dtype.name)}" if dtype is not None and dtype.name != "model" else ""
        return f"torch.tensor({render(step.args[0], names)}{typed})"

    forward = Forward(
        list(table.ops),
        [table.value],
        {},
        layouts=layouts,
        dtypes=dtypes,
        hints=dict.fromkeys((result for op in table.ops for result in op.results), name),
        optional=set(),
        attribute=lambda expr: render(expr, names),
        constant_name=constant,
        model_dtype=lambda: DEFAULT_DTYPE,
    )
    *lines, last = forward.lines()
    return [*lines, f'self.register_buffer("{identifier(name)}", {last.removeprefix("return ")}, persistent=False)']
