"""A bundle as a service over HTTP: ``tribit serve``; needs ``pip install "tribit[serve]"``.

Only the command line imports this package. A request is read and checked (:mod:`tribit.serve.handling`,
:mod:`tribit.serve.schemas`), answered by a bundle made ready for many small questions (:mod:`tribit.serve.served`) and
counted (:mod:`tribit.serve.counters`); :mod:`tribit.serve.watched` swaps the model when its file changes.
"""
