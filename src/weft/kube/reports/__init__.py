"""What workers tell the operator, over HTTP with their own tokens."""
