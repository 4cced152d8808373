"""Routers that are the model's own: what is known of them is said, and all else is named."""

import pytest
from kunport.analysis import analyze
from kunport.variants import read_facts
from kunport.variants.fact import DEPENDS, OPAQUE, PROVED

FORMULA = ("scoring", "renormalize", "groups", "correction_bias", "scale")


@pytest.mark.parametrize(
    ("name", "experts", "top_k", "status"),
    [
        ("phimoe", (16, DEPENDS), 2, PROVED),  # two by two searches of the source's own
        ("zaya", (None, OPAQUE), 1, DEPENDS),  # one of the classes is no expert
    ],
)
def test_what_a_router_of_no_known_formula_chooses_is_known_and_how_is_not(name, experts, top_k, status) -> None:
    layer = read_facts(analyze(name).graph).layer(1)
    assert (layer["router.experts"].value, layer["router.experts"].status) == experts
    assert (layer["router.top_k"].value, layer["router.top_k"].status) == (top_k, status)
    for key in FORMULA:
        assert layer[f"router.{key}"].status == OPAQUE
        assert "no formula" in layer[f"router.{key}"].reason
    named = str(layer["unexplained"].reason) + str(layer["unexplained"].value)
    assert "max" in named or "topk" in named


def test_a_router_of_a_known_formula_is_explained() -> None:
    layer = read_facts(analyze("olmoe").graph).layer(1)
    assert layer["router.scoring"].value == "softmax"
    assert all(layer[f"router.{key}"].status != OPAQUE for key in FORMULA)
    assert layer["unexplained"].status != OPAQUE
