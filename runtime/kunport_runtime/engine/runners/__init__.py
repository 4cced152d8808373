"""vLLM's model runner, one a kind of device, with kunport's sampler."""
