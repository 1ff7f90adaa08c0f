"""Built-in containers and iterators: lists, tuples, dicts, sets, deques, ranges, and the iterators over them."""
