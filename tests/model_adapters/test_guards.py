from types import SimpleNamespace

import pytest
from kunport_model_adapters.errors import AdapterError
from kunport_model_adapters.expressions import ExpressionError
from kunport_model_adapters.guards import check_guards
from transformers import LlamaConfig

CONFIG = SimpleNamespace(model_type="tiny", act="gelu", size=64, window=None, rope={"rope_type": "yarn"})


@pytest.mark.parametrize(
    ("guards", "difference"),
    [
        ({"config.size": 32}, "size is 64, expected 32"),
        ({"config.rope['rope_type']": "default"}, "rope['rope_type'] is 'yarn', expected 'default'"),
        ({"config.act == 'silu'": True}, "act is 'gelu', expected act == 'silu'"),
        ({"config.act == 'gelu'": False}, "act is 'gelu', expected not (act == 'gelu')"),
        ({"config.size // 4": 8}, "size is 64, expected size // 4 == 8"),
        ({"config.heads": 4}, "heads is missing, expected 4"),
        ({"config.rope['factor'] > 1": True}, "rope['factor'] is missing, expected rope['factor'] > 1"),
        ({"config.window > 8": True}, "window is None, expected window > 8"),
        ({"math.log(config.size - 64) < 1": True}, "size is 64, expected math.log(size - 64) < 1"),
        (
            {"config.size > 9 and config.act == 'silu'": True, "config.window": 8},
            "size is 64 and act is 'gelu', expected size > 9 and act == 'silu'; window is None, expected 8",
        ),
    ],
)
def test_a_configuration_that_differs_is_refused_by_field(guards, difference):
    with pytest.raises(AdapterError) as caught:
        check_guards(CONFIG, {"config.size > 0": True} | guards)
    assert caught.value.problem == f"This adapter was generated for another tiny configuration: {difference}."
    assert caught.value.cure == "Generate an adapter for this checkpoint with `kunport generate adapters`."


def test_the_configuration_it_was_generated_for_passes():
    check_guards(
        CONFIG, {"config.act": "gelu", "config.window is None": True, "config.size % 2": 0, "bool(config.rope)": 1}
    )
    check_guards(CONFIG, {})


def test_a_real_configuration():
    guards = {"config.hidden_act == 'silu'": True, "config.rope_parameters['rope_type']": "default"}
    check_guards(LlamaConfig(), guards)
    with pytest.raises(AdapterError, match="another llama configuration: hidden_act is 'relu', expected hidden_act =="):
        check_guards(LlamaConfig(hidden_act="relu"), guards)


def test_a_guard_that_is_no_expression_is_no_difference():
    with pytest.raises(ExpressionError, match="not allowed in a guard"):
        check_guards(CONFIG, {"exit()": True})
