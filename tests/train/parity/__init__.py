"""What people write in PyTorch, and that it comes to the same under Weft."""
