"""`weft recipes`: what there is to choose from, what a parameter means, and one of your own."""
