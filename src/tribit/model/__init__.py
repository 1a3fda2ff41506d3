"""What is minimised: links, risks, constraints, factors and features, and how a score becomes a probability."""
