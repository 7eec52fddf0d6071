"""What is done with a spec: run it, tune it, audit its oracle."""
