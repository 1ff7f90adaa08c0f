"""Lists, tuples, dicts, sets, deques, ranges, and the iterators over them."""
