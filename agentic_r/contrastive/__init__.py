"""Contrastive training of the retriever: batches, the loss, the trainer."""
