"""Evidence of a validation: a folder that holds all that is needed to repeat it, and to see what has changed since."""

from kunport.validation.evidence.folder import Evidence, read_evidence, write_evidence
from kunport.validation.evidence.replay import Change, Replay, replay

__all__ = ["Change", "Evidence", "Replay", "read_evidence", "replay", "write_evidence"]
