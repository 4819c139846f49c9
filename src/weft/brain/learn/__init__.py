"""What the brain learns from what workers measure."""
