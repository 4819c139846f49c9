"""`weft operator`: the process that decides for a cluster. People meet it in the chart."""
