import os

from hypothesis import settings

# A run that decides whether a change lands repeats itself; at a desk every run looks somewhere new.
settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")
