"""The paper's figures and its table, each by one command: ``tribit reproduce``."""

from tribit.experiments.reproduction import EXHIBITS, Reproduction, reproduce
from tribit.experiments.settings import Settings

__all__ = ["EXHIBITS", "Reproduction", "Settings", "reproduce"]
