"""Settings of all tests."""

import os

from hypothesis import settings

# A busy machine is slow, not wrong; and what continuous integration draws must not differ from one run to the next.
settings.register_profile("kunport", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("kunport")
