"""An experiment on a page: its sliders change the numbers of a spec, and compiled programs answer at once."""
