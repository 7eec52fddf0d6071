"""How fast Gossamer is: ``python -m benchmarks`` from the root of the project."""

import os

# Before NumPy is imported: two threads wait for each other at such small products, and our runs take one core too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
