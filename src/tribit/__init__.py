"""Binary matrix completion that uses likes, dislikes and the unobserved entries.

The public names are listed once, in ``__init__.pyi``, and imported when first used: scikit-learn alone takes most of a
second.

>>> from tribit import BinaryMatrixCompletion
>>> model = BinaryMatrixCompletion(rank=1, random_state=0).fit([[1, 0, -1], [0, -1, 1]])
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
