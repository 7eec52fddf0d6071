"""Networks in files: lists of links, graphs and matrices. Nothing in a file is unpickled or evaluated."""

from gossamer.networks.files.reading import from_file, is_network_file
from gossamer.networks.files.tables import digests_of, files_of, located

__all__ = ["digests_of", "files_of", "from_file", "is_network_file", "located"]
