"""Saved models and recommenders: one safetensors file, a JSON header and named tensors, nothing that is executed.

:func:`write` and :func:`read` know :class:`Contents`, not estimators: :func:`tribit.load` and
:meth:`tribit.Recommender.load` make those. The content is checked before memory is allocated for it.
"""

from tribit.storage.contents import Contents, read, write

__all__ = ["Contents", "read", "write"]
