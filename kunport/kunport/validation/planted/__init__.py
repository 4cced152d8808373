"""Porting bugs that people really make, planted in a generated adapter: one function a kind.

A function changes an adapter's source (`Source`) and returns the `Place` that is wrong now, or raises
`NotApplicableError` with the reason. Its name is what the table shows. A new kind is a new function in the room it
belongs to.
"""

from kunport.validation.planted.kinds import KINDS, kinds
from kunport.validation.planted.source import NotApplicableError, Place, Source

__all__ = ["KINDS", "NotApplicableError", "Place", "Source", "kinds"]
