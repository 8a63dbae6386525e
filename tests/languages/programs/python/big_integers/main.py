"""Digits of pi, a large factorial and a probable prime: integers of any size."""
import sys
from fractions import Fraction


def pi_digits():
    q, r, t, k, n, m = 1, 0, 1, 1, 3, 3
    while True:
        if 4 * q + r - t < n * t:
            yield n
            q, r, n = 10 * q, 10 * (r - n * t), 10 * (3 * q + r) // t - 10 * n
        else:
            q, r, t, k, n, m = q * k, (2 * q + r) * m, t * m, k + 1, (q * (7 * k + 2) + r * m) // (t * m), m + 2


def is_probable_prime(n):
    d, s = n - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for base in (2, 3, 5, 7, 11, 13):
        x = pow(base, d, n)
        if x in (1, n - 1):
            continue
        if not any((x := x * x % n) == n - 1 for _ in range(s - 1)):
            return False
    return True


if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)
count = int(sys.argv[1])
digits = pi_digits()
print("".join(str(next(digits)) for _ in range(count)))
factorial = 1
for n in range(1, 1001):
    factorial *= n
print(len(str(factorial)), sum(map(int, str(factorial))))
print([p for p in (89, 107, 127, 128) if is_probable_prime(2 ** p - 1)])
print(sum(Fraction(1, n) for n in range(1, 21)))
