"""The engine: the real vLLM with the adapter, in a process of its own."""
