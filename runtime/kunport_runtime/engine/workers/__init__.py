"""vLLM's worker, one a kind of device, with kunport's layers, sampler and memory pools."""
