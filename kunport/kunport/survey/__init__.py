"""Many models at once: a row for each, read by several processes, and kept for the next time.

`survey` gives the rows, `modeling_files` what lies below a folder. `cache` keeps results (never trees) by the digests
of all source that they were read from.
"""

from kunport.survey.files import modeling_files
from kunport.survey.row import Row
from kunport.survey.run import survey

__all__ = ["Row", "modeling_files", "survey"]
