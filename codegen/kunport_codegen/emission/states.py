"""What a decoder layer keeps of each sequence, which the engine asks for before any layer is made."""

from __future__ import annotations

from kunport_codegen.emission.identifiers import EmissionError, identifier
from kunport_codegen.emission.values import expressions, render
from kunport_codegen.expression import symbols_of
from kunport_codegen.lowering import LoweredModel
from kunport_codegen.lowering.members import Member
from kunport_codegen.lowering.states import FACTORIES
from kunport_codegen.lowering.structure import steps_of


def layer_states(model: LoweredModel) -> str:
    """The states of a layer, in the order in which its constructor makes what keeps them; "" for a model without.

    Raises:
        EmissionError: they are not the same in all layers that keep any.
    """
    parts = []
    for step in steps_of(model.root):
        if step.member is not None and step.name == "call" and step.member.factory in FACTORIES:
            parts.append(f"*{identifier(step.member.factory)}.states({', '.join(_sizes(step.member))})")
    return f"({', '.join(parts)},)" if parts else ""


def _sizes(member: Member) -> list[str]:
    for value in member.args:
        if any(symbols_of(expr) for expr in expressions(value)):
            raise EmissionError(f"{member.name} keeps states of other sizes in other layers")
    return [render(value, {}) for value in member.args]
