"""Elementary functions and reductions of a row, for kernels: part of the run time of generated modules.

`tl.exp` is 2^(x·log2 e) with a rounded product, 3.8e-6 off for |x| > 32; the functions here keep the digits (a test
bounds each). They use no function of a vendor's library, so that the interpreter runs what devices do.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def exp_(x):
    """e^x: 2^t with t = x·log2 e rounded, times what rounding t has dropped."""
    if x.dtype == tl.float64:
        return tl.exp(x)
    else:
        x = tl.where(x < -110.0, -110.0, x)
        x = tl.where(x > 90.0, 90.0, x)
        t = x * 1.44269504
        rest = tl.fma(x, 1.92596299e-8, tl.fma(x, 1.44269504, -t))
        return tl.exp2(t) * tl.fma(rest, 0.693147181, 1.0)


@triton.jit
def _power_of_2(k):
    """2^k for a whole number k, as a float of the same width; k within the exponents of normal numbers."""
    if k.dtype == tl.float64:
        return ((k.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)
    else:
        return ((k.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def _exp_tail(r):
    """e^r - 1 for |r| <= ln 2 / 2."""
    if r.dtype == tl.float64:
        q = tl.full(r.shape, 2.510038549551032e-08, tl.float64)
        q = tl.fma(q, r, tl.full(r.shape, 2.7620088445409746e-07, tl.float64))
        q = tl.fma(q, r, tl.full(r.shape, 2.7557268459997064e-06, tl.float64))
        q = tl.fma(q, r, tl.full(r.shape, 2.4801521295954376e-05, tl.float64))
        q = tl.fma(q, r, tl.full(r.shape, 0.00019841269863053618, tl.float64))
        q = tl.fma(q, r, tl.full(r.shape, 0.0013888888917213717, tl.float64))
        q = tl.fma(q, r, tl.full(r.shape, 0.008333333333330062, tl.float64))
        q = tl.fma(q, r, tl.full(r.shape, 0.04166666666662413, tl.float64))
        q = tl.fma(q, r, tl.full(r.shape, 0.16666666666666669, tl.float64))
    else:
        q = tl.full(r.shape, 0.0013926184037700295, tl.float32)
        q = tl.fma(q, r, 0.008363178931176662)
        q = tl.fma(q, r, 0.041666556149721146)
        q = tl.fma(q, r, 0.16666576266288757)
    q = tl.fma(q, r, 0.5)
    return tl.fma(r * r, q, r)


@triton.jit
def expm1_(x):
    """e^x - 1."""
    if x.dtype == tl.float64:
        c = tl.where(x < -45.0, -45.0, x)
        c = tl.where(c > 710.0, 710.0, c)
        log2e = tl.full((), 1.4426950408889634, tl.float64)
        high = tl.full((), -0.69314718055989033, tl.float64)
        low = tl.full((), -5.4979230187083712e-14, tl.float64)
    else:
        c = tl.where(x < -20.0, -20.0, x)
        c = tl.where(c > 89.0, 89.0, c)
        log2e = tl.full((), 1.44269504, tl.float32)
        high = tl.full((), -0.693145751953125, tl.float32)
        low = tl.full((), -1.42860677e-6, tl.float32)
    k = tl.floor(c * log2e + 0.5)
    p = _exp_tail(tl.fma(k, low, tl.fma(k, high, c)))
    half = tl.floor(k * 0.5)
    a = _power_of_2(half)
    # 2^k·p + (2^k - 1), by a product that may not overflow before its last step
    y = tl.fma(a, p, a - _power_of_2(half - k)) * _power_of_2(k - half)
    return tl.where(k == 0.0, p, y)


@triton.jit
def log_(x):
    """The natural logarithm."""
    return tl.log(x)


@triton.jit
def log1p_(x):
    """log(1 + x): the digits that 1 + x drops are added behind the logarithm."""
    u = 1.0 + x
    dropped = x - (u - 1.0)
    inside = (u > 0.0) & (u < float("inf"))
    y = tl.log(u) + tl.where(inside, dropped / tl.where(inside, u, 1.0), 0.0)
    return tl.where(x == 0.0, x, y)


@triton.jit
def sqrt_(x):
    """The square root."""
    if x.dtype == tl.float64:
        return tl.sqrt(x)
    else:
        return tl.sqrt_rn(x)


@triton.jit
def div_(x, y):
    """x / y, rounded as IEEE says."""
    if x.dtype == tl.float64:
        return x / y
    else:
        return tl.div_rn(x, y)


@triton.jit
def pow_(x, y):
    """x^y by way of float64, where a float32 result has all its digits."""
    dtype: tl.constexpr = x.dtype
    a = x.to(tl.float64)
    b = y.to(tl.float64)
    r = tl.exp(b * tl.log(tl.abs(a)))
    is_whole = tl.floor(b) == b
    odd = is_whole & (tl.floor(b * 0.5) != b * 0.5)
    signed = tl.where(odd, -r, r)
    r = tl.where(a < 0.0, tl.where(is_whole, signed, float("nan")), r)
    return tl.where((b == 0.0) | (a == 1.0), 1.0, r).to(dtype)


@triton.jit
def maximum_(x, y):
    """The larger; NaN if one is."""
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum_(x, y):
    """The smaller; NaN if one is."""
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def sign_(x):
    """-1, 0 or 1; NaN of NaN."""
    return tl.where(x > 0, 1, 0).to(x.dtype) - tl.where(x < 0, 1, 0).to(x.dtype) + (x - x)


@triton.jit
def round_(x):
    """The nearest whole number, of two the even one."""
    r = tl.floor(x + 0.5)
    odd = tl.floor(r * 0.5) * 2.0 != r
    return tl.where((r - x == 0.5) & odd, r - 1.0, r)


@triton.jit
def mod_(x, y):
    """The rest of a division, with the sign of y."""
    if x.dtype.is_floating():
        return x - y * tl.floor(x / y)
    else:
        safe = tl.where(y == 0, 1, y)
        r = x % safe
        return tl.where((r != 0) & ((r < 0) != (y < 0)), r + safe, tl.where(y == 0, 0, r))


@triton.jit
def isfinite_(x):
    """Whether it is neither infinite nor NaN."""
    return tl.abs(x) < float("inf")


@triton.jit
def erf_(x):
    """The error function."""
    return tl.erf(x)


@triton.jit
def atan_(x):
    """The angle of a slope, in float64: by a quotient of polynomials within 0.66 of 0, which larger slopes are turned
    to. Coefficients: Cephes (Moshier), atan.c."""
    dtype: tl.constexpr = x.dtype
    a = tl.abs(x.to(tl.float64))
    steep = a > 2.414213562373095
    middle = (a > 0.66) & (a <= 2.414213562373095)
    turned = tl.where(steep, -1.0 / tl.where(steep, a, 1.0), tl.where(middle, (a - 1.0) / (a + 1.0), a))
    z = turned * turned
    p = tl.full(x.shape, -0.8750608600031904, tl.float64)
    p = p * z + tl.full((), -16.157537187333652, tl.float64)
    p = p * z + tl.full((), -75.00855792314705, tl.float64)
    p = p * z + tl.full((), -122.88666844901361, tl.float64)
    p = p * z + tl.full((), -64.85021904942025, tl.float64)
    q = z + tl.full((), 24.858464901423062, tl.float64)
    q = q * z + tl.full((), 165.02700983169885, tl.float64)
    q = q * z + tl.full((), 432.8810604912903, tl.float64)
    q = q * z + tl.full((), 485.3903996359137, tl.float64)
    q = q * z + tl.full((), 194.5506571482614, tl.float64)
    half_pi = tl.full((), 1.5707963267948966, tl.float64)
    rest = tl.full((), 6.123233995736766e-17, tl.float64)  # of half of pi
    angle = turned + turned * (z * p / q)
    angle = tl.where(steep, half_pi + (angle + rest), tl.where(middle, 0.5 * half_pi + (angle + 0.5 * rest), angle))
    angle = tl.where(a == float("inf"), half_pi, angle)
    return tl.where(x < 0, -angle, angle).to(dtype)


@triton.jit
def _lgamma_positive(x):
    product = x * (x + 1.0) * (x + 2.0) * (x + 3.0) * (x + 4.0) * (x + 5.0) * (x + 6.0) * (x + 7.0)
    moved = tl.where(x < 8.0, x + 8.0, x)
    w = 1.0 / (moved * moved)
    q = tl.full(x.shape, 1.0 / 156.0, tl.float64)
    q = q * w - tl.full((), 691.0 / 360360.0, tl.float64)
    q = q * w + tl.full((), 1.0 / 1188.0, tl.float64)
    q = q * w - tl.full((), 1.0 / 1680.0, tl.float64)
    q = q * w + tl.full((), 1.0 / 1260.0, tl.float64)
    q = q * w - tl.full((), 1.0 / 360.0, tl.float64)
    q = q * w + tl.full((), 1.0 / 12.0, tl.float64)
    half_log_2pi = tl.full((), 0.9189385332046727, tl.float64)
    y = (moved - 0.5) * tl.log(moved) - moved + half_log_2pi + q / moved
    return tl.where(x < 8.0, y - tl.log(product), y)


@triton.jit
def _lgamma_near_1(h):
    """log gamma(1 + h) for |h| <= 1/8: -γ·h + Σ (-1)^k ζ(k)/k·h^k from k = 2 to 20, which keeps the digits beside its
    zero. The next term is below 2^-68 of the first."""
    q = tl.full(h.shape, 0.05000004769810169, tl.float64)
    q = q * h + tl.full((), -0.05263167937961666, tl.float64)
    q = q * h + tl.full((), 0.055555767627403614, tl.float64)
    q = q * h + tl.full((), -0.058823978658684585, tl.float64)
    q = q * h + tl.full((), 0.06250095514121304, tl.float64)
    q = q * h + tl.full((), -0.06666870588242046, tl.float64)
    q = q * h + tl.full((), 0.07143294629536133, tl.float64)
    q = q * h + tl.full((), -0.0769325164113522, tl.float64)
    q = q * h + tl.full((), 0.083353840546109, tl.float64)
    q = q * h + tl.full((), -0.09095401714582904, tl.float64)
    q = q * h + tl.full((), 0.1000994575127818, tl.float64)
    q = q * h + tl.full((), -0.11133426586956469, tl.float64)
    q = q * h + tl.full((), 0.12550966952474304, tl.float64)
    q = q * h + tl.full((), -0.1440498967688461, tl.float64)
    q = q * h + tl.full((), 0.1695571769974082, tl.float64)
    q = q * h + tl.full((), -0.20738555102867398, tl.float64)
    q = q * h + tl.full((), 0.27058080842778454, tl.float64)
    q = q * h + tl.full((), -0.40068563438653143, tl.float64)
    q = q * h + tl.full((), 0.8224670334241132, tl.float64)
    return h * (q * h - tl.full((), 0.5772156649015329, tl.float64))


@triton.jit
def lgamma_(x):
    """log |gamma(x)|, in float64: by Stirling's series from 8 on, which smaller ones are moved up to."""
    dtype: tl.constexpr = x.dtype
    a = x.to(tl.float64)
    pi = tl.full((), 3.141592653589793, tl.float64)
    positive = _lgamma_positive(tl.where(a > 0.0, a, 1.0 - a))
    reflected = tl.log(pi / tl.abs(tl.sin(pi * a))) - positive
    y = tl.where(a == float("inf"), a, tl.where(a > 0.0, positive, reflected))
    y = tl.where(tl.abs(a - 1.0) <= 0.125, _lgamma_near_1(a - 1.0), y)
    # lgamma(2 + h) = lgamma(1 + h) + log(1 + h)
    y = tl.where(tl.abs(a - 2.0) <= 0.125, _lgamma_near_1(a - 2.0) + log1p_(a - 2.0), y)
    return y.to(dtype)


# --- access -----------------------------------------------------------------------------------------------------------


@triton.jit
def scalar_(x, REAL: tl.constexpr):
    """A parameter, given as a number or as the address of one."""
    if x.dtype.is_ptr():
        x = tl.load(x)
    return x.to(REAL) + tl.zeros((1, 1), REAL)  # a tile: the interpreter mistypes comparisons of what is none


@triton.jit
def narrow_(i):
    """An index in 32 bits; -1 if it has more."""
    return tl.where((i > -2147483648) & (i < 2147483647), i, -1).to(tl.int32)


@triton.jit
def load_(p, cols, n, there, U: tl.constexpr, EVEN: tl.constexpr):
    """A tile of rows of n: in runs of U entries where memory allows, the last n mod U entries by themselves."""
    body = (n // U) * U
    x = tl.load(p, mask=there & (cols < body), other=0)
    if not EVEN:
        rest = tl.load(p, mask=there & (cols >= body) & (cols < n), other=0)
        x = tl.where(cols < body, x, rest)
    return x


@triton.jit
def store_(p, x, cols, n, live, U: tl.constexpr, EVEN: tl.constexpr):
    """The same for what is written."""
    body = (n // U) * U
    tl.store(p, x, mask=live & (cols < body))
    if not EVEN:
        tl.store(p, x, mask=live & (cols >= body) & (cols < n))


# --- reductions of a row: from entries or from the states of lanes [R, B] to [R, 1] -----------------------------------


@triton.jit
def logsumexp_row_(x):
    """(m, r, e) of a row: its maximum (0 if that is -inf), the sum of e^(x - m) less one term of a maximum (-1 over
    nothing), and e^(x - m)."""
    top = tl.max(x, 1, keep_dims=True)
    m = tl.where(top == float("-inf"), 0.0, top)
    e = exp_(x - m)
    same = x == top
    r = tl.sum(tl.where(same, 0.0, e), 1, keep_dims=True)
    ties = tl.sum(same.to(tl.int32), 1, keep_dims=True)
    return m, tl.where(top == float("-inf"), r * 0.0 - 1.0, r + (ties - 1).to(x.dtype)), e


@triton.jit
def logsumexp_add_(m, r, x):
    """A lane's state with one entry more; (-inf, -1) is that of nothing."""
    up = x > m
    e = exp_(-tl.abs(x - m))
    r = tl.where(up, (r + 1.0) * e, r + tl.where(x == float("-inf"), 0.0, e))
    return tl.where(up, x, m), r


@triton.jit
def logsumexp_lanes_(m, r):
    """(m, r) of a row from those of its lanes."""
    top = tl.max(m, 1, keep_dims=True)
    base = tl.where(top == float("-inf"), 0.0, top)
    same = m == top
    total = tl.sum(tl.where(same, r, (r + 1.0) * exp_(m - base)), 1, keep_dims=True)
    ties = tl.sum(same.to(tl.int32), 1, keep_dims=True)
    r = tl.where(top == float("-inf"), total * 0.0 - 1.0, total + (ties - 1).to(r.dtype))
    return base, r


@triton.jit
def max_lanes_(x):
    """The largest of a row; NaN if one is."""
    bad = tl.sum((x != x).to(tl.int32), 1, keep_dims=True)
    return tl.where(bad > 0, float("nan"), tl.max(x, 1, keep_dims=True))


@triton.jit
def min_lanes_(x):
    """The smallest of a row; NaN if one is."""
    bad = tl.sum((x != x).to(tl.int32), 1, keep_dims=True)
    return tl.where(bad > 0, float("nan"), tl.min(x, 1, keep_dims=True))


@triton.jit
def _product(x, y):
    return x * y


@triton.jit
def prod_lanes_(x):
    """The product of a row."""
    return tl.reduce(x, 1, _product, keep_dims=True)


@triton.jit
def argmax_add_(v, at, x, cols):
    """A lane's largest entry and its place, with one entry more."""
    up = x > v
    return tl.where(up, x, v), tl.where(up, cols, at)


@triton.jit
def argmax_lanes_(v, at):
    """The first place of a row's maximum."""
    top = tl.max(v, 1, keep_dims=True)
    first = tl.min(tl.where(v == top, at, 2147483647), 1, keep_dims=True)
    return tl.where(first == 2147483647, 0, first)


@triton.jit
def ties_add_(v, n, x, ok):
    """A lane's largest entry and how often it was met, with one entry more."""
    up = ok & ((x > v) | (n == 0))
    return tl.where(up, x, v), tl.where(up, 1, n + (ok & (x == v)).to(tl.int32))


@triton.jit
def ties_lanes_(v, n):
    """The maximum of a row and how many entries attain it."""
    top = max_lanes_(v)
    return top, tl.sum(tl.where(v == top, n, 0), 1, keep_dims=True)


# --- the whole of a row -----------------------------------------------------------------------------------------------


@triton.jit
def at_(x, i, n):
    """Entries of rows [R, B] at places [R, K] of n; the first one for a place outside."""
    inside = (i >= 0) & (i < n)
    return tl.gather(x, tl.where(inside, i, 0).to(tl.int32), 1)


@triton.jit
def order_(key, present, there, DOWN: tl.constexpr):
    """The places of a row's keys from the least (DOWN: the largest) on, of equal ones the first first; what isn't
    present behind, and at the end what isn't there. A NaN counts as the largest.

    What is sorted is one whole number an entry, of the key's bits and its place: sorts need not be stable then. Of 64
    bits the lower half is sorted first.
    """
    places = tl.arange(0, key.shape[1])[None, :].to(tl.int64) + tl.zeros(key.shape, tl.int64)
    group = tl.where(there, tl.where(present, 0, 1), 2).to(tl.int64) << 56
    plain = tl.where(key == 0.0, 0.0, key)  # -0 is 0
    plain = tl.where(key != key, float("nan"), plain)
    if key.dtype == tl.float64:
        bits = plain.to(tl.int64, bitcast=True)
        bits = tl.where(bits < 0, bits ^ 0x7FFFFFFFFFFFFFFF, bits)
        if DOWN:
            bits = ~bits
        low = bits & 0xFFFFFFFF
        first = tl.sort((low << 24) | places, 1) & 0xFFFFFF
        high = ((bits >> 32) + 2147483648) << 24
        high = tl.gather(high | group, first.to(tl.int32), 1)
        second = tl.sort(high | places, 1) & 0xFFFFFF
        return tl.gather(first, second.to(tl.int32), 1)
    else:
        bits = plain.to(tl.int32, bitcast=True)
        bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        if DOWN:
            bits = ~bits
        high = (bits.to(tl.int64) + 2147483648) << 24
        return tl.sort(high | group | places, 1) & 0xFFFFFF
