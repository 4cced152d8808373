"""The framework side: what vLLM sees of kunport. Its platform, workers, attention, layers, sampler and communicator."""
