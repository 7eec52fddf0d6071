"""The tests, in the rooms of the package, and what they share."""
