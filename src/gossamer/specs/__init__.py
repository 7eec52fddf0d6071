"""Specs: an experiment as a TOML file or a dictionary, read, checked and explained."""
