# A generator that is left in the middle is closed where the loop ends.
# then: another number


def program(x, y, n, flag, a, d, box):
    global G
    z, m, b = x + 1, 2, [y, 1]
    for v in numbers(x, 3):
        z = z + v
        if n > 1:
            break
    m = next(numbers(z, n), 1)
    return x, y, z, n, m, a, b, d, box
