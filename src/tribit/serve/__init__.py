"""A saved recommender over HTTP: ``tribit serve``; needs ``pip install "tribit[serve]"``.

Only the command line imports this package. Each question with an example request in
:data:`tribit.questions.QUESTIONS` is an endpoint. A request is read (:mod:`tribit.serve.handling`), checked by a schema
that follows from the fields of the question (:mod:`tribit.serve.schemas`), answered (:mod:`tribit.serve.served`) and
counted (:mod:`tribit.serve.counters`). :mod:`tribit.serve.hot_reload` loads a new model when its file changes.
"""
