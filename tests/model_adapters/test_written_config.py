"""A configuration whose layers have values of their own, read as its file has it."""

from __future__ import annotations

import pytest
from kunport_model_adapters.written import as_written
from transformers import Gemma2Config
from transformers.integrations.heterogeneity.configuration_utils import AmbiguousGlobalPerLayerAttributeError


def test_what_layers_have_otherwise_is_read_as_the_file_has_it() -> None:
    config = Gemma2Config(num_hidden_layers=2, head_dim=32, per_layer_config={1: {"head_dim": 64}})
    with pytest.raises(AmbiguousGlobalPerLayerAttributeError):
        _ = config.head_dim
    written = as_written(config)
    assert (written.head_dim, written.per_layer_config["1"]["head_dim"]) == (32, 64)
    assert written.hidden_size == config.hidden_size
    with pytest.raises(AttributeError):
        _ = written.no_such_field


def test_any_other_configuration_stays_itself() -> None:
    config = Gemma2Config(num_hidden_layers=2)
    assert as_written(config) is config
