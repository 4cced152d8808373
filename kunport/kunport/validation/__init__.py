"""The judge of a port: the real Hugging Face model against the real vLLM engine, never a model of either."""

from kunport.validation.judge import validate
from kunport.validation.limits import Limits
from kunport.validation.report import Report, Stage

__all__ = ["Limits", "Report", "Stage", "validate"]
