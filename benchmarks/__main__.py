"""Print every table of the benchmarks page."""

import datetime

from benchmarks import backend, bundle, compiled, memory, ranker, solver
from benchmarks.measure import machine
from tribit import __version__

print(f"tribit {__version__}, {datetime.date.today()}, {machine()}")
backend.main()
compiled.main()
solver.main()
memory.main()
ranker.main()
bundle.main()
