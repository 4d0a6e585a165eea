"""Special functions that are formulas of elementary ones: digamma, zeta, polygamma, the inverses of the error function
and of the normal distribution.

Each is the method of S. L. Moshier's Cephes library, which Eigen and so TensorFlow's CPU kernels use too: a series that
is cut at a fixed length, or a quotient of polynomials. All sides of a case are computed and one is selected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from habana_tf.formulas.term import Term

NAN, INF = math.nan, math.inf
EPSILON = 2.0**-24
"""Half a unit in the last place of a float32 near 1: where a series has converged."""


def like(x: Term, number: float) -> Term:
    """A number in the shape and type of x."""
    return Term(x.b, x.b.const(number, x.node.dtype, x.node.shape))


def polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """By Horner's rule, the highest power first."""
    total = like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def bernoulli(count: int) -> list[Fraction]:
    """B_2, B_4, ... B_2count, from the sum over k of binomial(n + 1, k) B_k = 0."""
    numbers = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        total = sum((math.comb(n + 1, k) * number for k, number in enumerate(numbers)), Fraction(0))
        numbers.append(-total / (n + 1))
    return numbers[2::2]


# -- digamma, zeta, polygamma ---------------------------------------------------------------------------------

SHIFTS = 10
"""The asymptotic series of digamma is used from here on; smaller arguments are shifted up."""


def digamma(x: Term) -> Term:
    """The derivative of lgamma. NaN at 0, -1, -2, ..., its poles."""
    negative = x.test("le", 0)
    part = x - x.map("rint")
    reflection = math.pi / (part * math.pi).map("tan")
    reflection = part.map("abs").test("eq", 0.5).where(like(x, 0), reflection)
    positive = negative.where(1 - x, x)
    small = positive.test("lt", SHIFTS)
    shifted = small.where(positive + SHIFTS, positive)
    lower = like(x, 0)
    for k in range(SHIFTS):
        lower = lower + 1 / (positive + k)
    square = 1 / (shifted * shifted)
    terms = [float(b / (2 * k)) for k, b in enumerate(bernoulli(4), 1)]
    series = square * polynomial(square, terms[::-1])
    value = shifted.map("log") - 0.5 / shifted - series - small.where(lower, 0)
    value = negative.where(value - reflection, value)
    pole = negative.test("and", x.test("eq", x.map("floor")))
    return pole.where(like(x, NAN), value)


TERMS = 9
"""Terms of the sum in zeta before the Euler-Maclaurin formula takes over."""


def zeta(x: Term, q: Term) -> Term:
    """Hurwitz' zeta function, the sum over k of (q + k) ** -x, for x > 1."""
    total = power = q.pow(-x)
    done = x.test("eq", INF).test("or", q.test("eq", INF))  # the first term is all of it, or 0
    at = q
    for _ in range(TERMS):
        at = at + 1
        power = at.pow(-x)
        total = done.where(total, total + power)
        done = done.test("or", (power / total).map("abs").test("lt", EPSILON))
    total = done.where(total, total + power * at / (x - 1) - power * 0.5)
    rising = like(q, 1)
    for k, number in enumerate(bernoulli(12), 1):
        rising = rising * (x + (2 * k - 2))
        power = power / at
        term = rising * power * float(number / math.factorial(2 * k))
        total = done.where(total, total + term)
        done = done.test("or", (term / total).map("abs").test("lt", EPSILON))
        rising = rising * (x + (2 * k - 1))
        power = power / at
    whole, even = x.test("eq", x.map("floor")), (x * 0.5).test("eq", (x * 0.5).map("floor"))
    at_pole = even.where(like(x, INF), NAN)
    below = q.test("eq", q.map("floor")).where(at_pole, whole.where(total, NAN))
    value = q.test("le", 0).where(below, total)
    return x.test("eq", 1).where(like(x, INF), x.test("lt", 1).where(like(x, NAN), value))


def polygamma(n: Term, x: Term) -> Term:
    """The n-th derivative of digamma, for whole n; NaN for others."""
    up = n + 1
    odd = (n * 0.5).test("ne", (n * 0.5).map("floor")).test("or", n.test("eq", INF))
    size = up.map("lgamma").map("exp") * zeta(up, x)
    value = n.test("eq", 0).where(digamma(x), odd.where(size, -size))
    return n.test("eq", n.map("floor")).test("and", n.test("ge", 0)).where(value, NAN)


# -- inverses of distributions --------------------------------------------------------------------------------

CENTRE = (
    (-59.9633501014107895, 98.0010754185999662, -56.6762857469070293, 13.9312609387279680, -1.23916583867381258),
    (1.0, 1.95448858338141760, 4.67627912898881538, 86.3602421390890591, -225.462687854119371, 200.260212380060660,
     -82.0372256168333340, 15.9056225126211696, -1.18331621121330003),
)  # fmt: skip
TAIL = (
    (4.05544892305962420, 31.5251094599893867, 57.1628192246421288, 44.0805073893200835, 14.6849561928858024,
     2.18663306850790268, -0.140256079171354496, -0.0350424626827848203, -8.57456785154685414e-4),
    (1.0, 15.7799883256466750, 45.3907635128879211, 41.3172038254672030, 15.0425385692907503, 2.50464946208309416,
     -0.142182922854787789, -0.0380806407691578277, -9.33259480895457427e-4),
)  # fmt: skip
FAR_TAIL = (
    (3.23774891776946036, 6.91522889068984212, 3.93881025292474443, 1.33303460815807542, 0.201485389549179082,
     0.0123716634817820021, 3.01581553508235416e-4, 2.65806974686737551e-6, 6.23974539184983294e-9),
    (1.0, 6.02427039364742014, 3.67983563856160859, 1.37702099489081330, 0.216236993594496636,
     0.0134204006088543189, 3.28014464682127739e-4, 2.89247864745380684e-6, 6.79019408009981274e-9),
)  # fmt: skip
"""Numerators and denominators of Cephes' ndtri: for e**-2 < p < 1 - e**-2 over (p - 1/2)**2, and for smaller p over
1/z with z = sqrt(-2 log p), below and above z = 8."""


def ndtri(p: Term) -> Term:
    """Where the standard normal distribution function has the value p."""
    upper = p.test("gt", 1 - math.exp(-2))
    low = upper.where(1 - p, p)
    half = low - 0.5
    square = half * half
    centre = half + half * (square * (polynomial(square, CENTRE[0]) / polynomial(square, CENTRE[1])))
    z = (low.map("log") * -2).map("sqrt")
    inverse = 1 / z
    near, far = (inverse * polynomial(inverse, top) / polynomial(inverse, bottom) for top, bottom in (TAIL, FAR_TAIL))
    tail = z - z.map("log") / z - z.test("lt", 8).where(near, far)
    value = low.test("gt", math.exp(-2)).where(centre * math.sqrt(2 * math.pi), upper.where(tail, -tail))
    ends = p.test("eq", 0).where(like(p, -INF), p.test("eq", 1).where(like(p, INF), NAN))
    return p.test("gt", 0).test("and", p.test("lt", 1)).where(value, ends)


def erfinv(x: Term) -> Term:
    """Through ndtri((x + 1) / 2), as TensorFlow does."""
    return ndtri((x + 1) * 0.5) * math.sqrt(0.5)
