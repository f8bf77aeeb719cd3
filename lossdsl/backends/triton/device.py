"""Elementary functions for kernels: part of the run time of generated modules.

`tl.exp` is 2^(x·log2 e) with a rounded product, 3.8e-6 off for |x| > 32; the functions here keep the digits (a test
bounds each). Of a vendor's library they use logarithms, sines, cosines and the exponential in float64 alone, so that
the interpreter runs what devices do.
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
    return tl.where(x != x, x, tl.where(x > 0, 1, 0).to(x.dtype) - tl.where(x < 0, 1, 0).to(x.dtype))


@triton.jit
def round_(x):
    """The nearest whole number, of two the even one."""
    r = tl.floor(x + 0.5)
    odd = tl.floor(r * 0.5) * 2.0 != r
    r = tl.where((r - x == 0.5) & odd, r - 1.0, r)
    whole: tl.constexpr = 4503599627370496.0 if x.dtype == tl.float64 else 8388608.0
    return tl.where(tl.abs(x) < whole, r, x)  # from there on there are no others, and x + 0.5 is rounded


@triton.jit
def mod_(x, y):
    """The rest of a division, with the sign of y: exact, as each step takes off a quotient's 24 (53) leading bits by a
    product that is not rounded. NaN where the quotient overflows."""
    if x.dtype.is_floating():
        y = y + tl.zeros_like(x)
        r = tl.where(y == y, x, y)
        steps: tl.constexpr = 20 if x.dtype == tl.float64 else 6
        for _ in range(steps):
            q = div_(r, y)
            q = tl.where(q < 0.0, tl.ceil(q), tl.floor(q))
            r = tl.where(q == 0.0, r, tl.fma(-q, y, r))
        return tl.where((r != 0.0) & ((r < 0.0) != (y < 0.0)), r + y, r)
    else:
        safe = tl.where(y == 0, 1, y)
        r = x % safe
        return tl.where((r != 0) & ((r < 0) != (y < 0)), r + safe, tl.where(y == 0, 0, r))


@triton.jit
def isfinite_(x):
    """Whether it is neither infinite nor NaN."""
    return tl.abs(x) < float("inf")


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
