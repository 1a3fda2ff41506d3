"""What a row will come to and like: finders, which put columns before rows that never saw them.

A model of signs knows what a row would think of a column and not whether it would ever look at it. A finder knows the
second. :class:`LikeFinder` says at which rates each unobserved entry becomes a like and a dislike; pass it to
``recommend`` beside a model, or let it recommend alone. Anything with the methods of :class:`Finder` will do as well,
and so will a second :class:`~tribit.factor_model.FactorModel`, fitted on the likes alone.
"""

from tribit.recommend.like_finder import LikeFinder
from tribit.recommend.scores import Finder

__all__ = ["Finder", "LikeFinder"]
