"""Run a spec, tune it, audit its oracle, and recommend what to run."""
