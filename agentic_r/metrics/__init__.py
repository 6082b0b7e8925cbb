"""Pure metrics of answers and of rankings, usable by every part above."""
