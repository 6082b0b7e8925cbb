"""Labels: from recorded queries to training instances, by relevance and answer correctness."""
