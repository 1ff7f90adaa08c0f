# Random whole numbers have no kernel, which shows only when the graph runs: after it had changed an argument.
# then: other values


def program(x, y, n, flag, a, d, box):
    global G
    z, m, b = x + 1, 2, [y, 1]
    box.n = 0
    x.add_(1)
    z = torch.rand_like(torch.full((3,), 2))
    return x, y, z, n, m, a, b, d, box
