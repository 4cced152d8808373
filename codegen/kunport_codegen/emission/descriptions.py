"""One line on what a class is, for its docstring, with the source line it comes from."""

from __future__ import annotations

from itertools import takewhile

from kunport_codegen.graph import Location
from kunport_codegen.lowering.members import Choice, Member
from kunport_codegen.lowering.structure import Body

# Layer with a state -> what a class with one is; the first counts, since the others go before it.
_RECURRENT = {
    "Mamba1Scan": "Mamba",
    "Mamba2Scan": "Mamba 2",
    "GatedDeltaRule": "Gated delta rule",
    "LinearAttention": "Linear attention",
    "MatrixLstm": "Matrix memory with exponential gates",
    "RgLru": "Real-gated linear recurrent unit",
    "Rwkv": "RWKV's time mixing",
    "ShortConvolution": "Short convolution",
    "TokenShift": "Channel mixing with the token before",
}
_WIDTH = 110  # of 120 columns, four are the indent and six the quotes


def describe(body: Body) -> str:
    """What the class does and what is special about it, with the source's file and line."""
    members = {
        step.member.factory: step.member for step in body.steps if step.name == "call" and step.member is not None
    }
    inner = body.children()
    if "Attention" in members:
        text = ", ".join(["Attention", *_attention(body, members)])
    elif recurrent := [text for factory, text in _RECURRENT.items() if factory in members]:
        text = recurrent[0]
    elif "FusedMoEFactory" in members:
        text = "Mixture of experts"
    elif any(factory.endswith("AndMul") for factory in members) or "MergedColumnParallelLinear" in members:
        text = "Gated MLP"
    elif "RowParallelLinear" in members and not inner:
        text = "MLP"
    elif inner:
        text = "Decoder layer" + _residual(body)
    else:
        text = "Part of the model"
    return docstring(text, body.where)


def docstring(text: str, where: Location) -> str:
    """``text (file.py:12).`` on one line, or the place in a paragraph of its own where one line is too short for it."""
    line = f"{text} ({place(where).rpartition('/')[2]})."
    return line if len(line) <= _WIDTH else f"{text}.\n\n    Source: {place(where).rpartition('/')[2]}.\n    "


def place(where: Location) -> str:
    """A location in a docstring: nothing in it can end the string."""
    text = str(where).replace("\\", "/").replace('"', "'")
    return "".join(character if character.isprintable() else " " for character in text)


def _attention(body: Body, members: dict[str, Member]) -> list[str]:
    notes = []
    attention, rope = members["Attention"], members.get("get_rope")
    before = takewhile(lambda factory: factory != "Attention", (s.member.factory for s in body.steps if s.member))
    if any("Norm" in factory for factory in before):
        whole = "HeadsRMSNorm" in members
        notes.append("query and key normed over all heads" if whole else "query and key normed per head")
    if rope is None:
        notes.append("without rotation")
    elif rope.kwargs.get("is_neox_style") is False:
        notes.append("rotating neighbouring elements")
    if rope is not None and rope.when is not None:
        notes.append("some layers without rotation")
    window = attention.kwargs.get("per_layer_sliding_window")
    if isinstance(window, Choice):
        notes.append("some layers with a window")
    elif window is not None:
        notes.append("with a window")
    if "logits_soft_cap" in attention.kwargs:
        notes.append("scores soft-capped")
    return notes


def _residual(body: Body) -> str:
    threaded = len(body.outputs) == 2
    return ", handing on what is to be added to the residual" if threaded else ""
