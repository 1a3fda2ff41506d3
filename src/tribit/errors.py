"""The errors tribit raises on purpose: one sentence that says what, where and what to do."""


class TribitError(Exception):
    """Base of every error that tribit raises on purpose."""


class InvalidInputError(TribitError, ValueError):
    """A value that tribit cannot use (also a ``ValueError``)."""


class InvalidTypeError(TribitError, TypeError):
    """An object of a kind that tribit cannot use (also a ``TypeError``)."""


class TribitWarning(UserWarning):
    """Base of the warnings about what was asked for."""


class UnboundedRiskWarning(TribitWarning):
    """The risk has no finite minimum with the bounds given; the fit stops at its iteration limit."""


class UnknownRhoWarning(TribitWarning):
    """Only likes (or only dislikes) were observed and ``rho`` was not given, which such data cannot tell."""
