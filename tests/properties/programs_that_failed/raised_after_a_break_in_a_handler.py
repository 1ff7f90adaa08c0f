# The exception came from a line of its own making, because the clean-up of the handler was captured without the `raise`.
# then: the same


def program(x, y, n, flag, a, d, box):
    global G
    z, m, b = x + 1, 2, [y, 1]
    try:
        z = z @ torch.ones(7, 7)
    except RuntimeError:
        print('here')
        raise Own(3) from None
    return x, y, z, n, m, a, b, d, box
