"""Reports: on the terminal while it happens and after, as JSON for machines, as one page for whoever has to decide.

Import from the modules: what prints an analysis needs nothing of what follows a validation.
"""
