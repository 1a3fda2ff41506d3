"""The paper's figures and its table, each by one command: ``tribit reproduce``."""

from tribit.paper.experiments.reproduction import EXHIBITS, Reproduction, reproduce
from tribit.paper.experiments.settings import Settings

__all__ = ["EXHIBITS", "Reproduction", "Settings", "reproduce"]
