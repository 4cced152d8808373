import numpy as np
from judging import judge
from numpy_formulas import attend_each, attended, written


def test_cache_write():
    def formula(key_cache, value_cache, key, value, slot_mapping, key_scale, value_scale):
        return {
            "key_cache": written(key_cache, key, slot_mapping, key_scale),
            "value_cache": written(value_cache, value, slot_mapping, value_scale),
        }

    judge("cache_write", formula)


def test_mla_cache_write():
    def formula(cache, latent, rope_key, slot_mapping, cache_scale):
        return {"cache": written(cache, np.concatenate((latent, rope_key), axis=1), slot_mapping, cache_scale)}

    judge("mla_cache_write", formula)


def test_paged_attention():
    def formula(
        out, query, key_cache, value_cache, block_tables, query_start_loc, seq_lens, max_query_len, max_seq_len, scale,
        window, softcap, sinks, alibi_slopes, key_scale, value_scale, query_start_loc_cpu, seq_lens_cpu,
    ):  # fmt: skip
        assert max_query_len == np.diff(query_start_loc).max()
        assert max_seq_len == seq_lens.max()

        def attend(queries, keys, values):
            keys, values = np.asarray(keys) * key_scale, np.asarray(values) * value_scale
            return attended(queries, keys, values, scale, window, softcap, sinks, alibi_slopes)

        caches = (key_cache, value_cache)
        return {"out": attend_each(out, query, caches, block_tables, query_start_loc, seq_lens, attend)}

    judge("paged_attention", formula)


def test_mla_attention():
    def formula(
        out, query_latent, query_rope, cache, block_tables, query_start_loc, seq_lens, max_query_len, max_seq_len, scale,
        cache_scale, query_start_loc_cpu, seq_lens_cpu,
    ):  # fmt: skip
        def attend(queries, rows):
            rows = np.asarray(rows)[:, None] * cache_scale  # one KV head
            return attended(queries, rows, rows[..., : query_latent.shape[-1]], scale)

        queries = np.concatenate((query_latent, query_rope), axis=-1)
        return {"out": attend_each(out, queries, (cache,), block_tables, query_start_loc, seq_lens, attend)}

    judge("mla_attention", formula)
