"""Where: packing, topology and locality waiting."""
