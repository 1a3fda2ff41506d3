"""Side-by-side measurements: peer, ours and their ratio, from one run. ``make bench``."""
