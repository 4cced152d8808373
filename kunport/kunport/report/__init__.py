"""Reports: on the terminal while it happens and after, as JSON for machines, as one page for whoever has to decide."""

from kunport.report.document import as_document, as_json
from kunport.report.files import write_report
from kunport.report.progress import StageDisplay
from kunport.report.terminal import print_report

__all__ = ["StageDisplay", "as_document", "as_json", "print_report", "write_report"]
