"""How fast Gossamer is: ``python -m benchmarks`` from the root of the project."""
