"""Indexes over passages, dense and BM25, and the retrievers made of them."""
