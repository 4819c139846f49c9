"""The brain: events in, instructions out; pure and deterministic."""
