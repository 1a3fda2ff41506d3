"""Fixed cases whose numbers are recorded, and compared after every step of a refactoring (``make pins``)."""

import os
import sys
from pathlib import Path

# Before NumPy: products of several BLAS threads have other bits, and two runs would wait for each other.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# The source beside these tests, also where another tree is installed, and in the processes that are started.
SOURCE = str(Path(__file__).parents[2] / "src")
if SOURCE not in sys.path[:1]:
    sys.path.insert(0, SOURCE)
    os.environ["PYTHONPATH"] = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
