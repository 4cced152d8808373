import pytest
from hypothesis import given
from hypothesis import strategies as st
from kunport.loading.planted import FAULTS, SOUND, plant

SHAPES = {"a": (2, 3), "b": (3,), "c": (2, 3), "d": (4,)}


@pytest.mark.parametrize("fault", FAULTS)
@given(seed=st.integers())
def test_a_fault_is_one_and_shows(fault, seed):
    damaged = plant(fault, SHAPES, tuple, seed)
    assert damaged == plant(fault, SHAPES, tuple, seed)
    changed = {name for name in {*SHAPES, *damaged} if SHAPES.get(name) != damaged.get(name)}
    assert len(changed) == (2 if fault == "swapped" else 1)


def test_a_sound_checkpoint_is_left_alone():
    assert plant(SOUND, SHAPES, tuple, 0) == SHAPES


def test_tensors_of_one_shape_cannot_be_exchanged_visibly():
    assert plant("swapped", {"a": (2,), "b": (2,)}, tuple, 0) is None
