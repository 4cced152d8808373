"""Attention over the paged KV cache, by the operators ``cache_write`` and ``paged_attention``."""
