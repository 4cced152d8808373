"""How the outer model loads a checkpoint, as source."""

from __future__ import annotations

import pprint
from typing import Any

from kunport_codegen.emission.identifiers import literal
from kunport_codegen.emission.values import render
from kunport_codegen.lowering.flow import basename
from kunport_codegen.lowering.members import Apart, Regroup
from kunport_codegen.lowering.weights import WeightMap


def mapper(weights: WeightMap) -> str:
    """The ``WeightsMapper``; "" where the checkpoint's names are the adapter's."""
    tables: dict[str, str] = {}
    if weights.regexes:
        entries = [f"re.compile({literal(old)}): {literal(new)}" for old, new in weights.regexes.items()]
        tables["orig_to_new_regex"] = "{" + ", ".join(entries) + "}"
    for name, table in (
        ("orig_to_new_substr", weights.substrings),
        ("orig_to_new_stacked", weights.stacked),
        ("orig_to_new_prefix", weights.prefixes),
    ):
        if table:
            tables[name] = dictionary(table)
    return f"WeightsMapper({', '.join(f'{name}={text}' for name, text in tables.items())})" if tables else ""


def dictionary(table: Any) -> str:
    """A dictionary of plain constants as source, in its own order."""
    return pprint.pformat(dict(table), sort_dicts=False, width=10_000)


def load_lines(weights: WeightMap) -> list[str]:
    """The body of ``load_weights``."""
    lines = []
    if weights.transposed:
        endings = literals(weights.transposed)
        lines.append(
            f"weights = ((name, weight.t() if name.endswith({endings}) else weight) for name, weight in weights)"
        )
    lines += [f"weights = {_taken_apart(apart)}" for apart in weights.apart]
    if weights.regroups:
        lines.append("weights = ((name, self._sort_rows(name, weight)) for name, weight in weights)")
    mapping = ", mapper=self.hf_to_vllm_mapper" if mapper(weights) else ""
    ignored = "".join(
        f", ignore_unexpected_{place}=[{', '.join(map(literal, texts))}]"
        for place, texts in (("prefixes", weights.ignored.prefixes), ("suffixes", weights.ignored.suffixes))
        if texts
    )
    return [*lines, f"return AutoWeightsLoader(self{ignored}).load_weights(weights{mapping})"]


def _taken_apart(apart: Apart) -> str:
    endings = ", ".join(literal(path.rpartition("*")[2]) for path in (apart.gate_up, apart.down))
    return f"single_experts(weights, {endings}, interleaved={apart.interleaved}, transposed={apart.transposed})"


def literals(texts: list[str]) -> str:
    """One text, or several as a tuple."""
    return literal(texts[0]) if len(texts) == 1 else f"({', '.join(map(literal, texts))})"


def sort_lines(weights: WeightMap) -> list[str]:
    """The body of ``_sort_rows``; empty where nothing is to be sorted."""
    lines = []
    for regroup in weights.regroups:
        lines.append(f"if {literal(_part(regroup.path))} in name:")
        lines.append(f"    return {_sorted(regroup)}")
    return [*lines, "return weight"] if lines else []


def reordered(weights: WeightMap) -> list[str]:
    """Names of the layers whose rows are sorted."""
    return list(dict.fromkeys(basename(regroup.path) for regroup in weights.regroups))


def turned(weights: WeightMap) -> list[str]:
    """Names of the layers whose matrices are transposed."""
    return list(dict.fromkeys(ending.split(".")[-2] for ending in weights.transposed))


def _part(path: str) -> str:
    """What only this layer's tensors have in their names: the path after the layer's number."""
    return f"{path.rpartition('*')[2]}."


def _sorted(regroup: Regroup) -> str:
    """The weight with all rows of the first part, then all of the second, and so on."""
    if regroup.heads is not None:
        heads, kv_heads = (render(count, {}).replace("config.", "self.config.") for count in regroup.heads)
        return f"ungroup_qkv(weight, {heads}, {kv_heads})"
    parts = len(regroup.order)
    places = tuple(regroup.order.index(part) for part in range(parts))
    if len(set(regroup.sizes)) == 1:
        single = regroup.sizes[0] == 1
        shape = f"(-1, {parts})" if single else f"({regroup.groups}, {parts}, -1)"
        sorted_places = "" if places == tuple(range(parts)) else f"[:, {list(places)}]"
        return f"weight.unflatten(0, {shape}){sorted_places}.transpose(0, 1).flatten(0, {1 if single else 2})"
    split = f"weight.unflatten(0, ({regroup.groups}, -1)).split({list(regroup.sizes)}, dim=1)"
    return f"torch.cat([({split})[place].flatten(0, 1) for place in {places}])"
