"""Results and studies, the store of finished runs, cache keys, provenance and statistics."""
