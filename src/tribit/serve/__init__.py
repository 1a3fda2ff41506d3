"""A saved recommender over HTTP: ``tribit serve``; needs ``pip install "tribit[serve]"``.

Only the command line imports this package. Each question with an example request in
:data:`tribit.questions.QUESTIONS` is an endpoint. :mod:`tribit.serve.requests` reads a request within the limits,
:mod:`tribit.serve.schemas` checks its fields and makes the question, :mod:`tribit.serve.served_model` answers it, and
:mod:`tribit.serve.counters` counts it. :mod:`tribit.serve.hot_reload` loads a new model when its file changes.
"""
