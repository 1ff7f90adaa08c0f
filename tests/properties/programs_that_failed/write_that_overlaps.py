# An in-place operator refused its arguments when the graph ran; the line was lost, and what happened before it, too.
# then: one tensor twice


def program(x, y, n, flag, a, d, box):
    global G
    z, m, b = x + 1, 2, [y, 1]
    d['t'] = 2
    m = len(a)
    y += y[0]
    return x, y, z, n, m, a, b, d, box
