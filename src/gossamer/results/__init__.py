"""What runs leave: results, studies, the store, atomic files, provenance and statistics."""
