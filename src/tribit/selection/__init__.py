"""Hyperparameter search on held-out entries of the observed ones.

:func:`choose` tries models on folds of the observed entries, from the simplest to more complex ones;
``BinaryMatrixCompletion`` calls it for every parameter that is ``"auto"`` and keeps the record as ``search_``. The
names are listed in ``__init__.pyi``: loading a model and predicting need none of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
