"""What adapters answer where vLLM asks for several positions of each token."""

from __future__ import annotations

from kunport_model_adapters.positions import TextPositions
from vllm.model_executor.models.interfaces import supports_mrope


class Model(TextPositions):
    position_axes = 3


def test_the_positions_of_text_are_its_places_on_every_axis() -> None:
    positions, later = Model().get_mrope_input_positions([7, 7, 9, 1], [])
    assert supports_mrope(Model())
    assert positions.tolist() == [[0, 1, 2, 3]] * 3
    assert later == 0
