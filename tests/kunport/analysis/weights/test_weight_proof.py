"""Every planted fault is found, and a sound checkpoint has none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.analysis.weights import Fault, check, refuse_misfit
from kunport_codegen.graph import DType, Graph, Parameter, Rename

import kunport

MODEL = DType("model")


def graph(layers=2, experts=3, hidden=4, width=6):
    """A model with stacked experts, a fused weight that the checkpoint has in parts, and one it has whole."""
    shapes = {"embed.weight": (11, hidden), "head.weight": (11, hidden)}
    for layer in range(layers):
        shapes |= {
            f"layers.{layer}.norm.weight": (hidden,),
            f"layers.{layer}.qkv.weight": (3 * hidden, hidden),
            f"layers.{layer}.gate.weight": (width, hidden),
            f"layers.{layer}.up.weight": (width, hidden),
            f"layers.{layer}.experts.gate_up": (experts, 2 * width, hidden),
            f"layers.{layer}.experts.down": (experts, hidden, width),
        }
    expert = "layers.*.experts.*"
    return Graph(
        "TinyForCausalLM",
        "tiny",
        {},
        parameters={path: Parameter(path, shape, MODEL) for path, shape in shapes.items()},
        tied=[("head.weight", "embed.weight")],
        renames=[
            Rename(("wte",), "embed.weight"),
            Rename(tuple(f"layers.*.{name}" for name in "qkv"), "layers.*.qkv.weight", ("concatenate:0",)),
            Rename(("layers.*.gate_up",), "layers.*.gate.weight", ("chunk:0,0,2",)),
            Rename(("layers.*.gate_up",), "layers.*.up.weight", ("chunk:0,1,2",)),
            Rename((f"{expert}.w1", f"{expert}.w3"), "layers.*.experts.gate_up", ("stack", "concatenate:1")),
            Rename((f"{expert}.w2",), "layers.*.experts.down", ("stack",)),
        ],
    )


def checkpoint(layers=2, experts=3, hidden=4, width=6):
    shapes = {"wte": (11, hidden)}
    for layer in range(layers):
        shapes |= {f"layers.{layer}.{name}": (hidden, hidden) for name in "qkv"}
        shapes |= {f"layers.{layer}.norm.weight": (hidden,), f"layers.{layer}.gate_up": (2 * width, hidden)}
        for expert in range(experts):
            shapes |= {f"layers.{layer}.experts.{expert}.{name}": (width, hidden) for name in ("w1", "w3")}
            shapes[f"layers.{layer}.experts.{expert}.w2"] = (hidden, width)
    return shapes


KEYS = st.sampled_from(sorted(checkpoint()))


def test_a_sound_checkpoint_is_proved():
    proof = check(graph(), checkpoint())
    assert proof.proved
    assert (proof.keys, proof.filled, proof.tied) == (29, 13, ["head.weight"])


@given(KEYS)
def test_a_missing_key_is_found(key):
    stored = checkpoint()
    del stored[key]
    proof = check(graph(), stored)
    assert not proof.fits
    assert any(key in fault.reason or "is made of" in fault.reason for fault in proof.faults)


@given(KEYS, st.sampled_from(["{}.copy", "model.{}", "{}_scale", "elsewhere"]))
def test_a_key_too_many_is_found(key, pattern):
    name = pattern.format(key)
    proof = check(graph(), checkpoint() | {name: (4,)})
    assert proof.faults == [Fault("unused", name, "has no place in the model")]


@given(KEYS, KEYS)
def test_two_keys_of_unlike_shapes_exchanged_are_found(one, other):
    stored = checkpoint()
    alike = stored[one] == stored[other]
    stored[one], stored[other] = stored[other], stored[one]
    assert check(graph(), stored).fits == alike


@given(KEYS, st.data())
def test_another_shape_is_found(key, data):
    stored = checkpoint()
    sound = stored[key]
    stored[key] = data.draw(
        st.one_of(
            st.lists(st.integers(0, 12), max_size=3).map(tuple),
            st.integers(0, len(sound) - 1).map(lambda dim: (*sound[:dim], sound[dim] + 2, *sound[dim + 1 :])),
        ).filter(lambda shape: shape != sound)
    )
    proof = check(graph(), stored)
    assert {fault.kind for fault in proof.faults} == {"misshapen"}


@pytest.mark.parametrize("experts", [2, 3])  # of two that differ, neither is in the majority
@pytest.mark.parametrize("expert", [0, 1])
def test_one_expert_of_another_shape_is_found(experts, expert):
    stored = checkpoint(experts=experts)
    stored[f"layers.1.experts.{expert}.w2"] = (4, 5)
    (fault,) = check(graph(experts=experts), stored).faults
    assert (fault.kind, fault.name) == ("misshapen", "layers.1.experts.down")
    assert "[4, 6]" in fault.reason
    assert "[4, 5]" in fault.reason


def test_a_key_that_fills_several_tensors_is_found():
    model = graph()
    model.renames.insert(0, Rename(("layers.0.norm.weight",), "layers.1.norm.weight"))
    faults = check(model, checkpoint()).faults
    assert Fault("repeated", "layers.0.norm.weight", "fills layers.0.norm.weight, layers.1.norm.weight") in faults
    assert Fault("unused", "layers.1.norm.weight", "has no place in the model") in faults


def test_keys_that_the_source_leaves_aside_are_no_fault():
    stored = checkpoint() | {"layers.2.q": (4, 4), "layers.0.rotary_emb.inv_freq": (2,), "other": (1,)}
    proof = check(graph(), stored, [r"layers\.2\..*"])
    assert proof.ignored == ["layers.2.q", "layers.0.rotary_emb.inv_freq"]
    assert [fault.name for fault in proof.faults] == ["other"]


@pytest.mark.parametrize("pattern", ["(a+)+$", "(", ".*.*.*.*x", "a" * 1000])
def test_a_hostile_expression_is_not_run(pattern):
    proof = check(graph(), checkpoint() | {"a" * 200 + "!": (1,)}, [pattern])
    assert proof.ignored == []


def test_a_hostile_number_is_just_a_name():
    proof = check(graph(), checkpoint() | {f"layers.0.experts.{'9' * 5000}.w1": (6, 4)})
    assert [fault.kind for fault in proof.faults] == ["unused"]


def test_a_shape_that_cannot_be_followed_is_not_proved():
    model = graph()
    model.renames[0] = Rename(("wte",), "embed.weight", ("unknown:Permute",))
    proof = check(model, checkpoint())
    assert proof.fits
    assert not proof.proved
    assert "Permute" in proof.unproved["embed.weight"]


def test_unused_keys_do_not_keep_weights_from_being_loaded(tmp_path):
    refuse_misfit(check(graph(), checkpoint() | {"more": (1,)}), tmp_path)
    with pytest.raises(kunport.KunportError, match="lacks 6 tensors of the model"):
        refuse_misfit(check(graph(3), checkpoint()), tmp_path)
