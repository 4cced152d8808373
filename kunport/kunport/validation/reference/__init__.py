"""The reference: the real Hugging Face model, eager, without a cache, in float32, in a process of its own."""
