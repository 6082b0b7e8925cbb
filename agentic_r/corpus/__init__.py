"""Documents, passages and questions: from files in any common shape to checked values, with a report."""
