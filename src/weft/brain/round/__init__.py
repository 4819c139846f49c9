"""One round: from a state to an outcome. Nothing in here changes the state."""
