"""Files in and out: JSON Lines, atomic writes, fingerprints, manifests, resumable records."""
