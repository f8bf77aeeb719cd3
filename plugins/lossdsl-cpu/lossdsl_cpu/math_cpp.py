"""Elementary functions for C++ loops: part of every kernel, and of the run time of generated modules."""

MATH = r"""
// Elementary functions as straight-line code, so that `#pragma omp simd` vectorises every loop that calls them. Errors
// in units of the last place (a test measures them): float exp 0.9, log 1.0, expm1 1.5, log1p 1.1; double exp 0.9,
// log 0.9. Infinities, zeros, denormals and NaN are as in C. Coefficients: near-minimax fits made with mpmath.
#define INLINE inline __attribute__((always_inline))  // a call within a loop would leave it scalar
static INLINE int bits(float x) { int i; __builtin_memcpy(&i, &x, 4); return i; }
static INLINE long bits(double x) { long i; __builtin_memcpy(&i, &x, 8); return i; }
static INLINE float from_bits(int i) { float x; __builtin_memcpy(&x, &i, 4); return x; }
static INLINE double from_bits(long i) { double x; __builtin_memcpy(&x, &i, 8); return x; }

// a·b + c with one rounding where the machine has it. Only here: in a kernel's own arithmetic products are rounded, so
// that s·z less the maximum of the s·z is 0 where it should be.
#ifdef __FMA__
static INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
static INLINE float fma(float a, float b, float c) { return a * b + c; }
static INLINE double fma(double a, double b, double c) { return a * b + c; }
#endif

template <class R> struct lim;
template <> struct lim<float> {
  static constexpr float inf = __builtin_inff(), nan = __builtin_nanf("");
};
template <> struct lim<double> {
  static constexpr double inf = __builtin_inf(), nan = __builtin_nan("");
};

// Adding `round_magic` rounds to an integer and leaves it in the low bits; the shift keeps just those of the exponent.
static constexpr float round_magic_f = 0x1.8p23f;
static constexpr double round_magic_d = 0x1.8p52;
static INLINE float pow2_of(float t, int bias) { return from_bits((int)((unsigned)(bits(t) + bias) << 23)); }
static INLINE double pow2_of(double t, int bias) { return from_bits((long)((unsigned long)(bits(t) + bias) << 52)); }

static INLINE float exp_tail(float r) {  // exp(r) - 1 for |r| <= ln 2 / 2
  float q = 0.0013926184037700295f;
  q = fma(q, r, 0.008363178931176662f);
  q = fma(q, r, 0.041666556149721146f);
  q = fma(q, r, 0.16666576266288757f);
  q = fma(q, r, 0.5f);
  return fma(r * r, q, r);
}
static INLINE double exp_tail(double r) {
  double q = 2.510038549551032e-08;
  q = fma(q, r, 2.7620088445409746e-07);
  q = fma(q, r, 2.7557268459997064e-06);
  q = fma(q, r, 2.4801521295954376e-05);
  q = fma(q, r, 0.00019841269863053618);
  q = fma(q, r, 0.0013888888917213717);
  q = fma(q, r, 0.008333333333330062);
  q = fma(q, r, 0.04166666666662413);
  q = fma(q, r, 0.16666666666666669);
  q = fma(q, r, 0.5);
  return fma(r * r, q, r);
}

// x, or where exp(x) is 0 anyway a number that is finite
static INLINE float not_far(float x) { return x < -105.f ? -105.f : x; }
static INLINE double not_far(double x) { return x < -746. ? -746. : x; }

// exp(x) for x <= 0 (and up to 40): one scale instead of two; still right where the result is denormal.
static INLINE float exp_neg(float x) {
  x = not_far(x);
  float t = fma(x, 1.44269504f, round_magic_f), k = t - round_magic_f;
  float r = fma(k, -1.42860677e-6f, fma(k, -0.693145751953125f, x));
  return (1.f + exp_tail(r)) * pow2_of(t, 127 + 64) * 0x1p-64f;
}
static INLINE double exp_neg(double x) {
  x = not_far(x);
  double t = fma(x, 1.4426950408889634, round_magic_d), k = t - round_magic_d;
  double r = fma(k, -1.6465949582897082e-12, fma(k, -0x1.62e42fefa0000p-1, x));
  return (1. + exp_tail(r)) * pow2_of(t, 1023 + 512) * 0x1p-512;
}
static INLINE float exp(float x) {
  x = x < -105.f ? -105.f : x;
  x = x > 89.f ? 89.f : x;
  float t = fma(x, 1.44269504f, round_magic_f), k = t - round_magic_f;
  float r = fma(k, -1.42860677e-6f, fma(k, -0.693145751953125f, x));
  float u = fma(k, 0.5f, round_magic_f), v = (k - (u - round_magic_f)) + round_magic_f;
  return (1.f + exp_tail(r)) * pow2_of(u, 127) * pow2_of(v, 127);
}
static INLINE double exp(double x) {
  x = x < -746. ? -746. : x;
  x = x > 710. ? 710. : x;
  double t = fma(x, 1.4426950408889634, round_magic_d), k = t - round_magic_d;
  double r = fma(k, -1.6465949582897082e-12, fma(k, -0x1.62e42fefa0000p-1, x));
  double u = fma(k, 0.5, round_magic_d), v = (k - (u - round_magic_d)) + round_magic_d;
  return (1. + exp_tail(r)) * pow2_of(u, 1023) * pow2_of(v, 1023);
}
static INLINE float expm1(float x) {
  float c = x < -20.f ? -20.f : x;
  c = c > 89.f ? 89.f : c;
  float t = fma(c, 1.44269504f, round_magic_f), k = t - round_magic_f;
  float r = fma(k, -1.42860677e-6f, fma(k, -0.693145751953125f, c));
  float u = fma(k, 0.5f, round_magic_f), v = (k - (u - round_magic_f)) + round_magic_f;
  float a = pow2_of(u, 127), b = pow2_of(v, 127), p = exp_tail(r);
  // 2^k·p + (2^k - 1), by a product that may not overflow before its last step
  float y = fma(a, p, a - pow2_of(2.f * round_magic_f - v, 127)) * b;
  return k == 0.f ? p : y;
}
static INLINE double expm1(double x) {
  double c = x < -45. ? -45. : x;
  c = c > 710. ? 710. : c;
  double t = fma(c, 1.4426950408889634, round_magic_d), k = t - round_magic_d;
  double r = fma(k, -1.6465949582897082e-12, fma(k, -0x1.62e42fefa0000p-1, c));
  double u = fma(k, 0.5, round_magic_d), v = (k - (u - round_magic_d)) + round_magic_d;
  double a = pow2_of(u, 1023), b = pow2_of(v, 1023), p = exp_tail(r);
  double y = fma(a, p, a - pow2_of(2. * round_magic_d - v, 1023)) * b;
  return k == 0. ? p : y;
}

// exp(x) - 1 for x <= 64: one scale instead of two
static INLINE float expm1_low(float x) {
  float c = x < -20.f ? -20.f : x;
  float t = fma(c, 1.44269504f, round_magic_f), k = t - round_magic_f;
  float r = fma(k, -1.42860677e-6f, fma(k, -0.693145751953125f, c));
  float a = pow2_of(t, 127);
  return fma(a, exp_tail(r), a - 1.f);
}
static INLINE double expm1_low(double x) {
  double c = x < -45. ? -45. : x;
  double t = fma(c, 1.4426950408889634, round_magic_d), k = t - round_magic_d;
  double r = fma(k, -1.6465949582897082e-12, fma(k, -0x1.62e42fefa0000p-1, c));
  double a = pow2_of(t, 1023);
  return fma(a, exp_tail(r), a - 1.);
}

// log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)), plus k·ln 2
static INLINE float log_near(float f, float k) {
  float p = 0.06971585005521774f;
  p = fma(p, f, -0.11480068415403366f);
  p = fma(p, f, 0.11685580015182495f);
  p = fma(p, f, -0.12425654381513596f);
  p = fma(p, f, 0.14249040186405182f);
  p = fma(p, f, -0.1666780263185501f);
  p = fma(p, f, 0.20000715553760529f);
  p = fma(p, f, -0.2499999701976776f);
  p = fma(p, f, 0.3333333134651184f);
  float h = f * f;
  return fma(k, 0.693145751953125f, f + fma(h, fma(f, p, -0.5f), k * 1.42860677e-6f));
}
static INLINE double log_near(double f, double k) {
  double s = f / (2. + f), w = s * s, h = 0.5 * f * f;
  double p = 0.14617807153417325;
  p = fma(p, w, 0.15331611722055008);
  p = fma(p, w, 0.1818289243253687);
  p = fma(p, w, 0.22222211089379496);
  p = fma(p, w, 0.28571428626253836);
  p = fma(p, w, 0.3999999999989889);
  p = fma(p, w, 0.666666666666667);
  return fma(k, 0x1.62e42fefa0000p-1, f - (h - fma(s, fma(w, p, h), k * 1.6465949582897082e-12)));
}
// x = 2^k (1 + f): the mantissa's bits counted from sqrt(1/2), so that k is even-handed around 1
static INLINE float split(float x, float &k) {
  int i = bits(x) - 0x3f3504f3;
  k = (float)(i >> 23);
  return from_bits((i & 0x7fffff) + 0x3f3504f3);
}
static INLINE double split(double x, double &k) {
  long i = bits(x) - 0x3fe6a09e667f3bcdL;
  k = from_bits((long)((unsigned long)(i + (1L << 62)) >> 52) + bits(round_magic_d)) - (round_magic_d + 1024.);
  return from_bits((i & 0xfffffffffffffL) + 0x3fe6a09e667f3bcdL);
}
static INLINE float log(float x) {
  bool tiny = x < 0x1p-126f;
  float k, m = split(tiny ? x * 0x1p25f : x, k);
  float y = log_near(m - 1.f, tiny ? k - 25.f : k);
  y = x == lim<float>::inf ? x : y;
  y = x == 0.f ? -lim<float>::inf : y;
  return x >= 0.f ? y : lim<float>::nan;
}
static INLINE double log(double x) {
  bool tiny = x < 0x1p-1022;
  double k, m = split(tiny ? x * 0x1p54 : x, k);
  double y = log_near(m - 1., tiny ? k - 54. : k);
  y = x == lim<double>::inf ? x : y;
  y = x == 0. ? -lim<double>::inf : y;
  return x >= 0. ? y : lim<double>::nan;
}
// log(1 + x): the digits that 1 + x drops are handed to f
static INLINE float log1p(float x) {
  float u = 1.f + x, k, m = split(u, k);
  float s = pow2_of(round_magic_f - k, 127);
  float y = log_near(fma(x - (u - 1.f), s, m - 1.f), k);
  y = x == lim<float>::inf ? x : y;
  y = u == 0.f ? -lim<float>::inf : y;
  y = x == 0.f ? x : y;
  return x >= -1.f ? y : lim<float>::nan;
}
static INLINE double log1p(double x) {
  double u = 1. + x, k, m = split(u, k);
  double s = pow2_of(round_magic_d - k, 1023);
  double y = log_near(fma(x - (u - 1.), s, m - 1.), k);
  y = x == lim<double>::inf ? x : y;
  y = u == 0. ? -lim<double>::inf : y;
  y = x == 0. ? x : y;
  return x >= -1. ? y : lim<double>::nan;
}
"""
