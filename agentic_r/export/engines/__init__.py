"""An index given to a search engine: passages and vectors as its bulk files, with its schema and a recipe."""
