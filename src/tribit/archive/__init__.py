"""Safetensors files, all of whose content is checked before memory is taken for it; nothing in them is executed.

:mod:`tribit.storage` keeps models in them, :mod:`tribit.ranking` rankers.
"""
