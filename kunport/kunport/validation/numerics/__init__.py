"""How far apart two tensors are, and how far apart they may be."""

from kunport.validation.numerics.calibrated import FLOOR, RATIO, ThreeWay, judge
from kunport.validation.numerics.metrics import Metrics, measure

__all__ = ["FLOOR", "RATIO", "Metrics", "ThreeWay", "judge", "measure"]
