"""Variants of norms. The keys are `norm[NAME].KEY`, where NAME is the module's path in its layer, or in the model."""
