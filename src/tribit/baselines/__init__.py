"""The other systems of the paper, each made of the same parts as the proposal."""
