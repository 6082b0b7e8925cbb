"""The alternation as a list of stages: what is done, what is next."""
