"""A release in one command: packages, image, chart, bill of materials, checksums."""
