"""vLLM's layers with kunport's operators inside: replaced by class name where vLLM makes one."""
