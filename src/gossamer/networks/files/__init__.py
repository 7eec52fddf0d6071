"""Networks in files: lists of links, graphs and matrices. Nothing in a file is unpickled or evaluated."""

from gossamer.networks.files.reading import from_file, is_network_file

__all__ = ["from_file", "is_network_file"]
