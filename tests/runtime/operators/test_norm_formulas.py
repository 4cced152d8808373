import numpy as np
from judging import judge
from numpy_formulas import root_mean_square, sigmoid


def test_rms_norm():
    judge(
        "rms_norm", lambda out, x, weight, epsilon, offset, cast: {"out": root_mean_square(x, weight, epsilon, offset)}
    )


def test_fused_add_rms_norm():
    def formula(out, residual_out, x, residual, weight, epsilon, offset, cast):
        return {
            "out": root_mean_square(x + residual, weight, epsilon, offset),
            "residual_out": x + residual,
        }

    judge("fused_add_rms_norm", formula)


def test_layer_norm():
    def formula(out, x, weight, bias, epsilon):
        normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
        return {"out": normed * (1 if weight is None else weight) + (0 if bias is None else bias)}

    judge("layer_norm", formula)


def test_gated_rms_norm():
    def formula(out, x, gate, weight, epsilon, group_size, order, activation):
        gate = sigmoid(gate) * (gate if activation == "silu" else 1)
        x = x * gate if order == "gate_first" else x
        step = group_size or x.shape[1]
        groups = [root_mean_square(x[:, at : at + step], None, epsilon) for at in range(0, x.shape[1], step)]
        result = np.concatenate(groups, axis=1) * (1 if weight is None else weight)
        return {"out": result * gate if order == "norm_first" else result}

    judge("gated_rms_norm", formula)
