"""What mixes: the weights of every round, held so that a product costs what the edges cost."""
