"""How fast Gossamer is: ``python -m benchmarks`` from the root of the project."""

import os

# Before NumPy is imported: two threads wait for each other at products this small, and a run of ours takes one core too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
