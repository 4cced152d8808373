"""The effective configuration of a model, field by field, without running its class.

`load_config` gives what ``AutoConfig.from_pretrained(folder)`` or ``ConfigClass(**fields)`` would hold: defaults,
derived fields and standardised RoPE parameters filled in.
"""

from kunport.analysis.config.loading import load_config

__all__ = ["load_config"]
