# The third call got the second one's text: the guard on a number that the graph does not use was lost.
# then: one tensor twice
# then: swapped


def program(x, y, n, flag, a, d, box):
    global G
    z, m, b = x + 1, 2, [y, 1]
    n += random.randint(0, 3000)
    try:
        d[n] += 1
    except KeyError as e:
        LOG.append(str(e))
    return x, y, z, n, m, a, b, d, box
