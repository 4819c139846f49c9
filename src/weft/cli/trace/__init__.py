"""`weft trace`: workloads as files."""
