"""vLLM's platform, one a device; `selected` holds the one that this process runs on."""
