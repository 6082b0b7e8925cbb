"""The tiny world: a made-up corpus with questions, gold evidence and demonstrations, from a seed."""
