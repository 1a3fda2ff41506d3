"""Kernels that Numba compiles (``pip install "tribit[fast]"``): the same sums as NumPy's, in one pass over the entries.

Nothing of Numba is imported before a backend of many entries is built. ``TRIBIT_COMPILED=0`` in the environment keeps
to NumPy, and ``TRIBIT_COMPILED=1`` takes the kernels for tables of any size.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib.util import find_spec

#: The variable of the environment that turns the kernels off, or on for tables of any size.
VARIABLE = "TRIBIT_COMPILED"
#: Number of entries from which the kernels serve: importing Numba and reading compiled code from its files takes about
#: a second of CPU, where a sweep of NumPy's over that many entries takes some 20 ms (synthetic tables). A round number.
MIN_ENTRIES = 50_000


def kernels_for(n_entries: int) -> bool:
    """Return whether the kernels serve a table of so many entries: they are installed, wanted, and worth an import."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted == "0" or (wanted != "1" and n_entries < MIN_ENTRIES):
        return False
    return are_available()


@cache
def are_available() -> bool:
    """Return whether the kernels can be used; warn once where Numba cannot be imported."""
    if find_spec("numba") is None:
        return False
    try:
        from tribit.backends.compiled import backend  # noqa: F401, PLC0415
    except Exception as error:
        # Whatever is wrong with it (its version of NumPy, a library of LLVM that is missing), NumPy gives the same.
        warnings.warn(
            f"Numba is installed but cannot be used ({type(error).__name__}: {error}): fits go on without compiled "
            f"kernels. Mend it by pip install 'tribit[fast]', or set {VARIABLE}=0.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True
