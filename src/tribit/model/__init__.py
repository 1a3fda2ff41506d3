"""The objective and its parts: links, risks, constraints, factors, features, and calibrators of the scores."""
