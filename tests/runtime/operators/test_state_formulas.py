import numpy as np
from judging import judge
from numpy_formulas import scanned, sigmoid, softplus


def test_short_convolution():
    def formula(out, x, weight, bias, state, activation, **sequences):
        width = weight.shape[1]

        def step(t, before):
            inputs = np.concatenate((before, x[t][:, None]), axis=1)
            result = np.array([weight[c] @ inputs[c] for c in range(len(weight))]) + (0 if bias is None else bias)
            return result * (sigmoid(result) if activation == "silu" else 1), inputs[:, 1:width]

        return dict(zip(("out", "state"), scanned(out, (state,), step=step, **sequences), strict=True))

    judge("short_convolution", formula)


def test_mamba1_scan():
    def formula(out, x, dt, a, b, c, d, gate, dt_bias, state, dt_softplus, **sequences):
        dt = dt + (0 if dt_bias is None else dt_bias)
        dt = softplus(dt) if dt_softplus else dt

        def step(t, h):
            h = np.exp(np.einsum("c,cn->cn", dt[t], a)) * h + np.einsum("c,n,c->cn", dt[t], b[t], x[t])
            y = np.einsum("cn,n->c", h, c[t]) + (0 if d is None else d * x[t])
            return y * (1 if gate is None else gate[t] * sigmoid(gate[t])), h

        return dict(zip(("out", "state"), scanned(out, (state,), step=step, **sequences), strict=True))

    judge("mamba1_scan", formula)


def test_mamba2_scan():
    def formula(out, x, dt, a, b, c, d, dt_bias, state, dt_softplus, dt_min, dt_max, **sequences):
        dt = dt + (0 if dt_bias is None else dt_bias)
        dt = np.clip(softplus(dt) if dt_softplus else dt, dt_min, dt_max)
        heads = x.shape[1]
        group = np.arange(heads) // (heads // b.shape[1])

        def step(t, h):
            h = np.exp(dt[t] * a)[:, None, None] * h + np.einsum("h,hp,hn->hpn", dt[t], x[t], b[t, group])
            y = np.einsum("hpn,hn->hp", h, c[t, group])
            return y + (0 if d is None else d[:, None] * x[t]), h

        return dict(zip(("out", "state"), scanned(out, (state,), step=step, **sequences), strict=True))

    judge("mamba2_scan", formula)


def test_gated_delta_rule():
    def formula(out, query, key, value, decay, beta, state, scale, normalize, **sequences):
        heads, key_dim = value.shape[1], key.shape[2]
        share = heads // key.shape[1]

        def unit(x):
            return x / np.sqrt((x * x).sum() + 1e-6) if normalize else x

        def step(t, memory):
            result, memory = np.empty(value.shape[1:]), memory.copy()
            for h in range(heads):
                q, k = unit(query[t, h // share]), unit(key[t, h // share])
                kept = np.diag(np.exp(np.broadcast_to(decay[t, h], key_dim)))
                # As a product of matrices: (1 - beta k k') diag(kept) S + beta k v'.
                memory[h] = (np.eye(key_dim) - beta[t, h] * np.outer(k, k)) @ kept @ memory[h]
                memory[h] += beta[t, h] * np.outer(k, value[t, h])
                result[h] = scale * q @ memory[h]
            return result, memory

        return dict(zip(("out", "state"), scanned(out, (state,), step=step, **sequences), strict=True))

    judge("gated_delta_rule", formula)


def test_linear_attention():
    def formula(out, query, key, value, decay, state, scale, query_start_loc, state_slots, has_initial_state):
        # In its parallel form: every pair of tokens, with the decay of their distance.
        result, final = out.copy(), state.copy()
        for index, slot in enumerate(state_slots):
            start, end = query_start_loc[index], query_start_loc[index + 1]
            if end == start:
                continue
            before = state[slot] * bool(has_initial_state[index])
            for h in range(query.shape[1]):
                for t in range(start, end):
                    reach = np.arange(start, t + 1)
                    scores = (key[reach, h] @ query[t, h]) * np.exp(decay[h] * (t - reach))
                    carried = np.exp(decay[h] * (t - start + 1)) * before[h]
                    result[t, h] = scale * (scores @ value[reach, h] + query[t, h] @ carried)
                reach = np.arange(start, end)
                faded = key[reach, h] * np.exp(decay[h] * (end - 1 - reach))[:, None]
                final[slot, h] = faded.T @ value[reach, h] + np.exp(decay[h] * (end - start)) * before[h]
        return {"out": result, "state": final}

    judge("linear_attention", formula)


def test_rg_lru():
    def formula(out, x, input_gate, recurrence_gate, a_parameter, state, **sequences):
        a = sigmoid(-a_parameter) ** (8 * sigmoid(recurrence_gate))  # the paper's form: a^(c r) with a = 1 - sigmoid
        first = {
            start
            for start, end, initial in zip(
                sequences["query_start_loc"],
                sequences["query_start_loc"][1:],
                sequences["has_initial_state"],
                strict=False,
            )
            if end > start and not initial
        }

        def step(t, h):
            entering = sigmoid(input_gate[t]) * x[t]
            h = entering if t in first else a[t] * h + np.sqrt(1 - a[t] ** 2) * entering
            return h, h

        return dict(zip(("out", "state"), scanned(out, (state,), step=step, **sequences), strict=True))

    judge("rg_lru", formula)


def test_rwkv():
    def formula(out, receptance, key, value, time_decay, time_first, state, **sequences):
        decay = np.exp(-np.exp(time_decay))

        def step(t, now):
            # Without the common exponent, which float64 does not need here; it is put back for the state.
            total, weight = now[0] * np.exp(now[2]), now[1] * np.exp(now[2])
            own = np.exp(time_first + key[t])
            mean = (total + own * value[t]) / (weight + own)
            exponent = np.maximum(now[2] - np.exp(time_decay), key[t])
            total, weight = decay * total + np.exp(key[t]) * value[t], decay * weight + np.exp(key[t])
            return sigmoid(receptance[t]) * mean, np.stack((total, weight, exponent * 1.0)) / np.stack(
                (np.exp(exponent), np.exp(exponent), np.ones_like(exponent))
            )

        initial = np.stack((np.zeros(key.shape[1]), np.zeros(key.shape[1]), np.full(key.shape[1], -1e38)))
        return dict(zip(("out", "state"), scanned(out, ((state, initial),), step=step, **sequences), strict=True))

    judge("rwkv", formula)


def test_mlstm():
    def formula(
        out, query, key, value, input_gate, forget_gate, memory, normalizer, maximum, scale, epsilon, **sequences
    ):  # fmt: skip
        def step(t, c, n, m):
            # Without the common exponent inside; the state is relative to it.
            c, n = c * np.exp(m)[:, None, None], n * np.exp(m)[:, None]
            m = np.maximum(np.log(sigmoid(forget_gate[t])) + m, input_gate[t])
            kept, entering = sigmoid(forget_gate[t]), np.exp(input_gate[t])
            c = kept[:, None, None] * c + np.einsum("h,hk,hv->hkv", entering, key[t], value[t])
            n = kept[:, None] * n + entering[:, None] * key[t]
            dot = scale * np.abs((n * query[t]).sum(-1))
            result = scale * np.einsum("hkv,hk->hv", c, query[t])
            # |n . q| and 1 have the exponent taken out of both sides of the fraction.
            result = result / (np.maximum(dot, 1) + epsilon * np.exp(m))[:, None]
            return result, c / np.exp(m)[:, None, None], n / np.exp(m)[:, None], m

        states = (memory, normalizer, maximum)
        names = ("out", "memory", "normalizer", "maximum")
        return dict(zip(names, scanned(out, states, step=step, **sequences), strict=True))

    judge("mlstm", formula)
