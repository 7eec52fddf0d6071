"""Tools that every room uses: checks of arrays and sizes, random keys, pytrees, text for terminals."""
