"""What the brain says to a world, what it hears, and what it waits for an answer to."""
