"""A real S3 server for tests: versitygw, which serves a folder."""
