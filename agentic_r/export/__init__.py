"""The checkpoint folder that others load, its card, and the proof that it gives the trainer's vectors."""
