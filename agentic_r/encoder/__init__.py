"""The bi-encoder: the only owner of text format, prefix, pooling, normalisation and length."""
