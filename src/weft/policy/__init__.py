"""How to decide: order, size and place as small pure functions, composed by recipes."""
