"""What a run measured: values with intervals, paired comparisons, the summary, the table, the report."""
