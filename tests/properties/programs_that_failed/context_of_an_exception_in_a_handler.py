# What is raised in a handler forgot the exception that was being handled there.
# then: other values


def program(x, y, n, flag, a, d, box):
    global G
    z, m, b = x + 1, 2, [y, 1]
    try:
        raise Own(1)
    except Own as e:
        assert z is None, str(e)
    return x, y, z, n, m, a, b, d, box
