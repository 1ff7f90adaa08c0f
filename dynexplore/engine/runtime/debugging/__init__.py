"""Finding out what is wrong, and making it small: which layer, which operator, which guard, which frame."""
