"""The command line, as ``python -m gossamer``."""

from gossamer.cli import main

if __name__ == "__main__":
    main()
