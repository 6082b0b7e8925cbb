"""Serving an exported encoder and the index that it built, over HTTP and from the terminal."""
