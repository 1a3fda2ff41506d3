"""Fixed cases whose numbers are recorded, and compared after every step of a refactoring (``make pins``)."""
