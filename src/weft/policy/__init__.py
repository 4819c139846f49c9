"""How to decide: order, size, share and place as small pure functions, composed by recipes."""
