"""Language models behind one seam: transformers in process, or an OpenAI-compatible endpoint."""
