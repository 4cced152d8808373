import numpy as np
from judging import judge
from numpy_formulas import gated, sigmoid, softmax


def test_gated_activation():
    judge("gated_activation", lambda out, x, **options: {"out": gated(x, **options)})


def test_expert_routing():
    def formula(
        weights, ids, logits, correction_bias, scoring, renormalize, groups, top_groups, group_score, scale
    ):  # fmt: skip
        chosen, result = np.empty_like(ids), np.empty_like(weights)
        for row, logit in enumerate(logits):
            scores = softmax(logit) if scoring == "softmax" else sigmoid(logit)
            choice = scores + (0 if correction_bias is None else correction_bias)
            members = np.split(np.arange(len(logit)), groups)
            best = [np.sort(choice[each])[::-1][: 1 if group_score == "maximum" else 2].sum() for each in members]
            allowed = [expert for group in np.argsort(best)[::-1][:top_groups] for expert in members[group]]
            ranked = sorted(allowed, key=lambda expert: -choice[expert])[: ids.shape[1]]
            total = scores[ranked].sum() if renormalize else 1.0
            chosen[row], result[row] = ranked, scores[ranked] / total * scale
        return {"weights": result, "ids": chosen}

    judge("expert_routing", formula)


def test_grouped_matmul():
    def formula(out, x, weight, group_starts):
        result = out.copy()
        for expert, matrix in enumerate(weight):
            rows = slice(group_starts[expert], group_starts[expert + 1])
            result[rows] = np.einsum("rk,nk->rn", x[rows], matrix)
        return {"out": result}

    judge("grouped_matmul", formula)


def test_fused_experts():
    def formula(
        out, x, gate_up_weight, down_weight, weights, ids, gate_up_bias, down_bias, **options
    ):  # fmt: skip
        result = np.zeros_like(out)
        for token, (experts, factors) in enumerate(zip(ids, weights, strict=True)):
            for expert, factor in zip(experts, factors, strict=True):
                if expert < 0:
                    continue
                hidden = gate_up_weight[expert] @ x[token] + (0 if gate_up_bias is None else gate_up_bias[expert])
                down = down_weight[expert] @ gated(hidden, **options)
                result[token] += factor * (down + (0 if down_bias is None else down_bias[expert]))
        return {"out": result}

    judge("fused_experts", formula)
