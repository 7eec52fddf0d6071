"""What every room stands on: checks of arrays and sizes, random keys, pytrees, text for terminals."""
