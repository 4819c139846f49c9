"""`weft context`: which worlds there are, and which one commands speak to."""
