"""Search with fresh seeds, apart from the tests, which repeat the same ones."""
