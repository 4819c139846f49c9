"""What runs inside a user's training process: data, gradients and state, for any world size."""
