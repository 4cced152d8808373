import numpy as np
from judging import judge
from numpy_formulas import nearest, softmax


def product(x, weight, bias):
    return np.einsum("rk,nk->rn", x, weight) + (0 if bias is None else bias)


def test_linear():
    judge("linear", lambda out, x, weight, bias: {"out": product(x, weight, bias)})


def test_int8_matmul():
    def formula(out, x, weight, x_scale, weight_scale, bias):
        return {"out": product(x * x_scale[:, None], weight * weight_scale[:, None], bias)}

    judge("int8_matmul", formula)


def test_fp8_matmul():
    def formula(out, x, weight, x_scale, weight_scale, bias, in_group, out_group):
        x, weight = np.array(x), np.array(weight)
        for column in range(x.shape[1]):
            x[:, column] *= x_scale[:, column // in_group]
            for output in range(len(weight)):
                weight[output, column] *= weight_scale[output // out_group, column // in_group]
        return {"out": product(x, weight, bias)}

    judge("fp8_matmul", formula)


def test_quantize_rows():
    def formula(out, scale, x, group):
        integers = not hasattr(out, "grid")
        largest = 127 if integers else out.grid[-1]
        scales, result = np.empty_like(scale), np.empty(x.shape)
        for row in range(len(x)):
            for index in range(scale.shape[1]):
                part = x[row, index * group : (index + 1) * group]
                scales[row, index] = np.abs(part).max() / largest or 1.0
                quotient = part / scales[row, index]
                result[row, index * group : (index + 1) * group] = (
                    np.rint(quotient) if integers else nearest(quotient, out.grid)
                )
        return {"out": result.astype(np.int8) if integers else result, "scale": scales}

    judge("quantize_rows", formula)


def test_embed_tokens():
    def formula(out, ids, table, scale, first):
        rows = [table[each - first] * scale if first <= each < first + len(table) else 0 * table[0] for each in ids]
        return {"out": np.array(rows)}

    judge("embed_tokens", formula)


def test_sample():
    def formula(out, logits, temperature, top_k, top_p, uniform, greedy):
        return {"out": np.array([chosen(*row) for row in zip(logits, temperature, top_k, top_p, uniform, strict=True)])}

    judge("sample", formula)


def chosen(logits, temperature, top_k, top_p, uniform):
    """By sets of equally probable tokens, the most probable first."""
    if temperature == 0:
        return int(np.flatnonzero(logits == logits.max())[0])
    least = np.sort(logits)[::-1][top_k - 1] if top_k else -np.inf
    kept = np.flatnonzero(logits >= least).tolist()
    probabilities = dict(zip(kept, softmax(logits[kept] / temperature), strict=True))
    mass, allowed = (1.0, set(kept)) if top_p >= 1 else (0.0, set())
    for level in np.unique(logits[kept])[::-1] if top_p < 1 else ():
        if mass >= top_p:
            break
        equals = [token for token in kept if logits[token] == level]
        allowed.update(equals)
        mass += sum(probabilities[token] for token in equals)
    passed = 0.0
    for token in sorted(allowed):
        passed += probabilities[token]
        if passed > uniform * mass:
            return token
    raise AssertionError("the uniform number is below one")
