"""The paper's world: its experiments, the systems it compares with, its theory, and the ancestors of its risks."""
