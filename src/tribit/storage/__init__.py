"""Models and bundles on disk: one safetensors file, parameters as JSON in its header, nothing that is executed.

:func:`tribit.load` and :meth:`tribit.Recommender.load` read what :func:`save` wrote.
"""

from tribit.storage.writing import save

__all__ = ["save"]
