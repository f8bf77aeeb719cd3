"""The error function, for kernels: part of the run time of generated modules."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _erf_small(z):
    """erf(x)/x - 1 at z = x², for |x| < 27/32."""
    p = tl.full(z.shape, -2.3763016656650163e-05, tl.float64)
    p = p * z + tl.full((), -0.005770270296489442, tl.float64)
    p = p * z + tl.full((), -0.02848174957559851, tl.float64)
    p = p * z + tl.full((), -0.3250421072470015, tl.float64)
    p = p * z + tl.full((), 0.12837916709551256, tl.float64)
    q = tl.full(z.shape, -3.960228278775368e-06, tl.float64)
    q = q * z + tl.full((), 0.00013249473800432164, tl.float64)
    q = q * z + tl.full((), 0.005081306281875766, tl.float64)
    q = q * z + tl.full((), 0.0650222499887673, tl.float64)
    q = q * z + tl.full((), 0.39791722395915535, tl.float64)
    q = q * z + tl.full((), 1.0, tl.float64)
    return p / q


@triton.jit
def _erf_middle(s):
    """erf(1 + s) - 0.845…, for s from -5/32 to 1/4."""
    p = tl.full(s.shape, -0.002166375594868791, tl.float64)
    p = p * s + tl.full((), 0.035478304325618236, tl.float64)
    p = p * s + tl.full((), -0.11089469428239668, tl.float64)
    p = p * s + tl.full((), 0.31834661990116175, tl.float64)
    p = p * s + tl.full((), -0.3722078760357013, tl.float64)
    p = p * s + tl.full((), 0.41485611868374833, tl.float64)
    p = p * s + tl.full((), -0.0023621185607526594, tl.float64)
    q = tl.full(s.shape, 0.011984499846799107, tl.float64)
    q = q * s + tl.full((), 0.01363708391202905, tl.float64)
    q = q * s + tl.full((), 0.12617121980876164, tl.float64)
    q = q * s + tl.full((), 0.07182865441419627, tl.float64)
    q = q * s + tl.full((), 0.540397917702171, tl.float64)
    q = q * s + tl.full((), 0.10642088040084423, tl.float64)
    q = q * s + tl.full((), 1.0, tl.float64)
    return p / q


@triton.jit
def _erf_large(w):
    """log(x·erfc(x)) + x² + 9/16 at w = 1/x², for x from 5/4 to 20/7."""
    p = tl.full(w.shape, -9.814329344169145, tl.float64)
    p = p * w + tl.full((), -81.2874355063066, tl.float64)
    p = p * w + tl.full((), -184.60509290671104, tl.float64)
    p = p * w + tl.full((), -162.39666946257347, tl.float64)
    p = p * w + tl.full((), -62.375332450326006, tl.float64)
    p = p * w + tl.full((), -10.558626225323291, tl.float64)
    p = p * w + tl.full((), -0.6938585727071818, tl.float64)
    p = p * w + tl.full((), -0.009864944034847148, tl.float64)
    q = tl.full(w.shape, -0.0604244152148581, tl.float64)
    q = q * w + tl.full((), 6.570249770319282, tl.float64)
    q = q * w + tl.full((), 108.63500554177944, tl.float64)
    q = q * w + tl.full((), 429.00814002756783, tl.float64)
    q = q * w + tl.full((), 645.3872717332679, tl.float64)
    q = q * w + tl.full((), 434.56587747522923, tl.float64)
    q = q * w + tl.full((), 137.65775414351904, tl.float64)
    q = q * w + tl.full((), 19.651271667439257, tl.float64)
    q = q * w + tl.full((), 1.0, tl.float64)
    return p / q


@triton.jit
def _erf_tail(w):
    """The same for x from 20/7 to 6."""
    p = tl.full(w.shape, -483.5191916086514, tl.float64)
    p = p * w + tl.full((), -1025.0951316110772, tl.float64)
    p = p * w + tl.full((), -637.5664433683896, tl.float64)
    p = p * w + tl.full((), -160.63638485582192, tl.float64)
    p = p * w + tl.full((), -17.757954917754752, tl.float64)
    p = p * w + tl.full((), -0.799283237680523, tl.float64)
    p = p * w + tl.full((), -0.0098649429247001, tl.float64)
    q = tl.full(w.shape, -22.44095244658582, tl.float64)
    q = q * w + tl.full((), 474.52854120695537, tl.float64)
    q = q * w + tl.full((), 2553.0504064331644, tl.float64)
    q = q * w + tl.full((), 3199.8582195085955, tl.float64)
    q = q * w + tl.full((), 1536.729586084437, tl.float64)
    q = q * w + tl.full((), 325.7925129965739, tl.float64)
    q = q * w + tl.full((), 30.33806074348246, tl.float64)
    q = q * w + tl.full((), 1.0, tl.float64)
    return p / q


@triton.jit
def erf_(x):
    """The error function, in float64: by quotients of polynomials. Coefficients: Sun Microsystems' fdlibm, s_erf.c."""
    dtype: tl.constexpr = x.dtype
    a = tl.abs(x.to(tl.float64))
    small = a + a * _erf_small(a * a)
    middle = tl.full((), 0.8450629115104675, tl.float64) + _erf_middle(a - 1.0)
    b = tl.where(a < 1.25, 1.25, tl.where(a < 6.0, a, 6.0))
    w = 1.0 / (b * b)
    rest = tl.where(b < 2.857142857142857, _erf_large(w), _erf_tail(w))
    large = 1.0 - tl.exp(rest - b * b - 0.5625) / b
    y = tl.where(a < 0.84375, small, tl.where(a < 1.25, middle, large))
    return tl.where(x != x, x, tl.where(x < 0, -y, y).to(dtype))
