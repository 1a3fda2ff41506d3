"""The paper: its experiments, the systems it compares with, its theory, and the classification risks behind it."""
