"""What a job would do with given resources."""
