"""Angles, erf and the gamma function's family in C++: part of the kernels that use them."""

from __future__ import annotations

import re

RARE = r"""
// Straight-line code in double, so that loops over floats stay vectors: a float's result is within 0.52 units of its
// last place (lgamma 2 beside its zeros; a test measures it), over the whole range. For doubles they are the C
// library's, but for the polygammas. Coefficients: near-minimax fits made with mpmath.
// sin and cos of k quarter turns, |f| <= 1/2: f·S(f²) and C(f²), exact to a double's last digits
static INLINE double sine_of(double f) {
  double w = f * f, q = -6.627624938992472e-10;
  q = fma(q, w, 5.691927850489633e-08);
  q = fma(q, w, -3.598842717144858e-06);
  q = fma(q, w, 0.0001604411847266723);
  q = fma(q, w, -0.004681754135314827);
  q = fma(q, w, 0.07969262624616692);
  q = fma(q, w, -0.6459640975062463);
  return f * fma(q, w, 1.5707963267948966);
}
static INLINE double cosine_of(double f) {
  double w = f * f, q = -6.321256869628588e-09;
  q = fma(q, w, 4.710609726757823e-07);
  q = fma(q, w, -2.520203677046026e-05);
  q = fma(q, w, 0.0009192602741831558);
  q = fma(q, w, -0.02086348076331121);
  q = fma(q, w, 0.2536695079010467);
  q = fma(q, w, -1.2337005501361697);
  return fma(q, w, 1.);
}
// the sine of n + f quarter turns
static INLINE double wave(double n, double f) {
  double half = std::floor(n * 0.5), sign = 1. - 2. * (half - 2. * std::floor(half * 0.5));
  return sign * (n == 2. * half ? sine_of(f) : cosine_of(f));
}
// x in quarter turns less a multiple of 4, as n + f. 2/pi in pieces of 28 bits: each product with a float's 24 is
// exact, and so is what is left of it beyond multiples of 4; the sum loses nothing before n is taken away.
static INLINE void quarters(float x, double &n, double &f) {
  const double piece[7] = {0x1.45f306cp-1, 0x1.c9c882ap-29, 0x1.4fe13a8p-59, 0x1.f47d4dp-86, 0x1.bb81b6cp-113,
                           0x1.4acc9ep-143, 0x1.0e4107cp-170};
  double p[7], sum = 0;
  #pragma GCC unroll 7
  for (int i = 0; i < 7; ++i) {
    p[i] = x * piece[i];
    p[i] = fma(-4., std::rint(p[i] * 0.25), p[i]);
    sum += p[i];
  }
  n = std::rint(sum);
  f = -n;
  #pragma GCC unroll 7
  for (int i = 0; i < 7; ++i) f += p[i];
}
static INLINE float sin(float x) {
  double n, f;
  quarters(x, n, f);
  return x == 0.f ? x : (float)wave(n, f);
}
static INLINE float cos(float x) {
  double n, f;
  quarters(x, n, f);
  return (float)wave(n + 1., f);
}
static INLINE float tan(float x) {
  double n, f;
  quarters(x, n, f);
  return x == 0.f ? x : (float)(wave(n, f) / wave(n + 1., f));
}
// of pi·x, which a double has exactly in quarter turns
static INLINE double sinpi(double x) {
  double t = 2. * x - 4. * std::rint(0.5 * x), n = std::rint(t);
  return wave(n, t - n);
}
static INLINE double cospi(double x) {
  double t = 2. * x - 4. * std::rint(0.5 * x), n = std::rint(t);
  return wave(n + 1., t - n);
}
static INLINE double asin_low(double x) {  // |x| <= 1/2
  double w = x * x, q = 0.03295759470084881;
  q = fma(q, w, 0.0019156113431105127);
  q = fma(q, w, 0.02068132717169167);
  q = fma(q, w, 0.02185574259984348);
  q = fma(q, w, 0.03042811901907943);
  q = fma(q, w, 0.04464056469220037);
  q = fma(q, w, 0.07500005655821883);
  q = fma(q, w, 0.16666666613278705);
  return x * fma(q, w, 1.);
}
static INLINE float asin(float x) {
  double v = x, a = absolute(v);
  double far = 1.5707963267948966 - 2. * asin_low(std::sqrt((1. - a) * 0.5));
  double y = a <= 0.5 ? asin_low(a) : far;
  return a <= 1. ? (float)__builtin_copysign(y, v) : lim<float>::nan;
}
static INLINE float acos(float x) {
  double v = x, a = absolute(v), far = 2. * asin_low(std::sqrt((1. - a) * 0.5));
  double near = 1.5707963267948966 - asin_low(v);
  return a <= 1. ? (float)(a <= 0.5 ? near : x < 0.f ? 3.141592653589793 - far : far) : lim<float>::nan;
}
static INLINE float atan(float x) {
  double v = x, a = absolute(v), t = a > 1. ? 1. / a : a, w = t * t, q = 0.00041922786011272897;
  q = fma(q, w, -0.0031954252407363944);
  q = fma(q, w, 0.011427633277375594);
  q = fma(q, w, -0.02600599597760862);
  q = fma(q, w, 0.04364658944281667);
  q = fma(q, w, -0.06022196387937433);
  q = fma(q, w, 0.07495262378099696);
  q = fma(q, w, -0.09049179093720577);
  q = fma(q, w, 0.11105306732424464);
  q = fma(q, w, -0.1428522560816021);
  q = fma(q, w, 0.19999978336217084);
  q = fma(q, w, -0.3333333295165722);
  double y = t * fma(q, w, 0.9999999999887381);
  y = a > 1. ? 1.5707963267948966 - y : y;
  return (float)__builtin_copysign(y, v);
}
static INLINE float erf(float x) {
  double v = x, a = absolute(v), w = v * v, q = -9.667044571486996e-06;
  q = fma(q, w, 0.00011265959025606609);
  q = fma(q, w, -0.0008484080405535107);
  q = fma(q, w, 0.005221031807858023);
  q = fma(q, w, -0.026865430727670243);
  q = fma(q, w, 0.11283782495236845);
  q = fma(q, w, -0.3761263846802871);
  double near = a * fma(q, w, 1.1283791670615435);
  double u = minimum(a, 4.) - 2.5, r = 1.713328469523717e-08;
  r = fma(r, u, -3.5116319925678533e-07);
  r = fma(r, u, 7.357494723767418e-07);
  r = fma(r, u, 3.461528317745017e-06);
  r = fma(r, u, -1.5153995102536417e-05);
  r = fma(r, u, 7.76015756900154e-06);
  r = fma(r, u, 8.00225016283282e-05);
  r = fma(r, u, -0.0002534303815818847);
  r = fma(r, u, 0.0002598692589340108);
  r = fma(r, u, 0.0005445393425852912);
  r = fma(r, u, -0.0027982086376201164);
  r = fma(r, u, 0.00611658507158297);
  r = fma(r, u, -0.008622419844859008);
  r = fma(r, u, 0.008350212261757061);
  r = fma(r, u, -0.0054457084866670735);
  r = fma(r, u, 0.002178278477149569);
  double y = a < 1. ? near : fma(r, u, 0.999593047982555);
  return x == x ? (float)__builtin_copysign(y, v) : x;
}
static INLINE double acos(double x) { return std::acos(x); }
static INLINE double asin(double x) { return std::asin(x); }
static INLINE double atan(double x) { return std::atan(x); }
static INLINE double cos(double x) { return std::cos(x); }
static INLINE double erf(double x) { return std::erf(x); }
static INLINE double sin(double x) { return std::sin(x); }
static INLINE double tan(double x) { return std::tan(x); }

// The polygammas of x > 0: beyond 10 by their asymptotic series, below after ten steps up
struct raised { double x, sum; };
template <int N> static INLINE raised raise(double x) {
  double sum = 0;
  #pragma GCC unroll 10
  for (int k = 0; k < 10; ++k) {
    double y = x + k, inverse = 1. / y;
    sum += N == 0 ? -inverse : N == 1 ? inverse * inverse : -2. * inverse * inverse * inverse;
  }
  return {x < 10. ? x + 10. : x, x < 10. ? sum : 0.};
}
static INLINE double digamma_positive(double x) {
  raised r = raise<0>(x);
  double w = 1. / (r.x * r.x);
  return r.sum + log(r.x) - 0.5 / r.x -
    w * (1. / 12 - w * (1. / 120 - w * (1. / 252 - w * (1. / 240 - w * (1. / 132 - w * (691. / 32760 - w / 12))))));
}
static INLINE double trigamma_positive(double x) {
  raised r = raise<1>(x);
  double w = 1. / (r.x * r.x);
  return r.sum + 1. / r.x + 0.5 * w +
    w / r.x * (1. / 6 - w * (1. / 30 - w * (1. / 42 - w * (1. / 30 - w * (5. / 66 - w * (691. / 2730 - w * 7. / 6))))));
}
static INLINE double tetragamma_positive(double x) {
  raised r = raise<2>(x);
  double w = 1. / (r.x * r.x);
  return r.sum - w - w / r.x - w * w * (0.5 - w * (1. / 6 - w * (1. / 6 - w * (0.3 - w * (5. / 6 - w * 691. / 210)))));
}
// and of x <= 0 by reflection
template <class R> static INLINE R digamma(R x) {
  double v = x, far = 3.141592653589793 * cospi(v) / sinpi(v), y = digamma_positive(v > 0. ? v : 1. - v);
  return (R)(v > 0. ? y : y - far);
}
template <class R> static INLINE R trigamma(R x) {
  double v = x, s = sinpi(v), y = trigamma_positive(v > 0. ? v : 1. - v);
  return (R)(v > 0. ? y : 9.869604401089358 / (s * s) - y);
}
template <class R> static INLINE R tetragamma(R x) {
  double v = x, s = sinpi(v), y = tetragamma_positive(v > 0. ? v : 1. - v);
  return (R)(v > 0. ? y : y - 62.01255336059963 * cospi(v) / (s * s * s));
}
// log Γ by Stirling's series after eight steps up; by reflection below 1/2
static INLINE double lgamma_positive(double x) {
  double product = ((x * (x + 1.)) * ((x + 2.) * (x + 3.))) * (((x + 4.) * (x + 5.)) * ((x + 6.) * (x + 7.)));
  double y = x < 8. ? x + 8. : x, w = 1. / (y * y);
  double series = 1. / 12 - w * (1. / 360 - w * (1. / 1260 - w * (1. / 1680 - w * (1. / 1188 - w * 691. / 360360))));
  return (y - 0.5) * log(y) - y + 0.9189385332046727 + series / y - (x < 8. ? log(product) : 0.);
}
static INLINE float lgamma(float x) {
  double v = x, s = absolute(sinpi(v)), y = lgamma_positive(v < 0.5 ? 1. - v : v);
  y = v < 0.5 ? 1.1447298858494002 - log(s) - y : y;
  y = absolute(v) == lim<double>::inf ? lim<double>::inf : (v == 1.) | (v == 2.) ? 0. : y;
  return (float)y;
}
static INLINE double lgamma(double x) { return std::lgamma(x); }
"""
NAMES = ("sin", "cos", "tan", "asin", "acos", "atan", "erf", "lgamma", "digamma", "trigamma", "tetragamma")
_CALL = re.compile(rf"\b(?:{'|'.join(NAMES)})\(")


def rare(text: str) -> str:
    """What a kernel's text needs of these functions: all of them or none."""
    return RARE if _CALL.search(text) else ""
