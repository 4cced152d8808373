"""The epsilon of each norm, and who says so.

`epsilon` is added under the root (of an L2 norm that bounds its length instead, it is the least length).
`epsilon_source` is `config.FIELD` where a field of the configuration gives it, `class default` where the norm's own
class does, because nobody passed one, `torch default` where the source calls torch's function without one, and
`literal` where a number stands in the code that builds or computes the norm.
Epsilon belongs to the instance: many models mix sources.
"""

from __future__ import annotations

import sys

from kunport_codegen.expression import Scalar, fields_of, unwrap
from kunport_codegen.facts import Norm
from kunport_codegen.recognition.norms import STEP

from kunport.variants.fact import Fact, depending
from kunport.variants.model import Model
from kunport.variants.variant import Example, Found, Variant

# Torch's functions, with the place of their epsilon: it is written down where the source gives one.
_EPSILON = {"layer_norm": 4, "rms_norm": 3}


def read(model: Model, norm: Norm) -> Found:
    """Value and source."""
    epsilon = norm.epsilon
    value = float(min(unwrap(epsilon), sys.float_info.max))  # a whole number can be larger than any other
    if epsilon == STEP:
        yield "epsilon", model.opaque(model.index.nodes[norm.output], "torch's own, which its version decides")
    else:
        yield "epsilon", model.fact(value, norm.where, "", epsilon)
    if isinstance(epsilon, Scalar) and (fields := sorted(fields_of(epsilon.expr))):
        source = Fact(", ".join(f"config.{path}" for path in fields), norm.where, tuple(fields))
    else:
        source = _constant(model, norm, value)
    picked = epsilon.expr.chosen if isinstance(epsilon, Scalar) else frozenset()
    yield "epsilon_source", depending({"": source}, picked)[""]


def _constant(model: Model, norm: Norm, value: float) -> Fact:
    """Which constant it is: the norm's module tells what it was built with."""
    calls = (model.index.nodes[each] for each in norm.nodes)
    if any(len(node.args) <= _EPSILON.get(node.op, -1) for node in calls):
        return Fact("torch default", norm.where)
    if value == STEP:
        return Fact("class default", norm.where)
    module = model.graph.modules.get(model.paths[norm.frame])
    if module is None or module.children or value in module.floats:
        return Fact("literal", norm.where)
    held = any(type(each) in (int, float) and each == value for each in module.attributes.values())
    return Fact("class default" if held else "literal", norm.where)


VARIANT = Variant(
    keys={
        "norm[NAME].epsilon": "the value",
        "norm[NAME].epsilon_source": "config.FIELD, class default, torch default or literal",
    },
    scope="norm",
    read=read,
    examples=(
        Example("llama", 1e-6, "norm[input_layernorm].epsilon", fields=("rms_norm_eps",)),
        Example("llama", "config.rms_norm_eps", "norm[input_layernorm].epsilon_source"),
        Example("gpt2", "config.layer_norm_epsilon", "norm[ln_1].epsilon_source"),
        Example("opt", "class default", "norm[self_attn_layer_norm].epsilon_source"),
    ),
)
