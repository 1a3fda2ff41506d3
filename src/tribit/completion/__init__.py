"""The estimator :class:`BinaryMatrixCompletion`, its fit and its files.

The names are listed in ``__init__.pyi``: a question to a saved recommender does not need the estimator.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
