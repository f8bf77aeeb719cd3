"""The other primitives in C++: part of every kernel."""

SPECIAL = r"""
// The other primitives, in terms of math.hpp.
static INLINE float absolute(float x) { return __builtin_fabsf(x); }
static INLINE double absolute(double x) { return __builtin_fabs(x); }
static INLINE long absolute(long x) { return x < 0 ? -x : x; }
// NaN where either is: one instruction for the numbers, which keeps a NaN of x, and a choice for a NaN of y
template <class R> static INLINE R minimum(R x, R y) { R m = y < x ? y : x; return y != y ? y : m; }
template <class R> static INLINE R maximum(R x, R y) { R m = y > x ? y : x; return y != y ? y : m; }
template <class R> static INLINE R clip(R x, R lo, R hi) { return minimum(maximum(x, lo), hi); }
template <class R> static INLINE R relu(R x) { return maximum(x, R(0)); }
template <class R> static INLINE R sign(R x) { return x != x ? x : R((x > 0) - (x < 0)); }
template <class R> static INLINE R mulz(R x, R y) { return (x == 0) | (y == 0) ? R(0) : x * y; }  // 0·inf = 0
template <class R> static INLINE R modulo(R x, R y) { return x - y * std::floor(x / y); }
static INLINE long modulo(long x, long y) {
  if (y == 0) return 0;
  long r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
template <class R> static INLINE bool isfinite(R x) { return x - x == 0; }
template <class R> static INLINE R sigmoid(R x) {
  R e = exp_neg(x > 0 ? -x : x);
  return (x >= 0 ? R(1) : e) / (R(1) + e);
}
template <class R> static INLINE R softplus(R x) { return maximum(x, R(0)) + log1p(exp_neg(x > 0 ? -x : x)); }
template <class R> static INLINE R logaddexp(R x, R y) {
  R gap = x == y ? R(0) : x > y ? y - x : x - y;  // not inf - inf
  return maximum(x, y) + log1p(exp_neg(gap));
}
template <class R> static INLINE R log1mexp(R x) {
  return x > R(-0.693147) ? log(-expm1(x)) : log1p(-exp(x));
}
template <class R> static INLINE R expsub(R x, R y) {  // exp(x) - exp(y)
  R gap = x == y ? R(0) : x > y ? y - x : x - y;
  R d = exp(maximum(x, y)) * -expm1(gap);
  return x < y ? -d : d;
}
// exp(x) - exp(y) for x <= y, where e = exp(y) is known
template <class R> static INLINE R expsub_below(R x, R y, R e) { return e * expm1_low(x == y ? R(0) : x - y); }
// exp(x) - 1 - x for |x| <= 1/2: the series to the digits of the type
static INLINE float expm1mx_near(float x) {
  float q = 2.492243642934227e-05f;
  q = fma(q, x, 0.000199621762266955f);
  q = fma(q, x, 0.001388873772021196f);
  q = fma(q, x, 0.008333182071584195f);
  q = fma(q, x, 0.04166666713918055f);
  q = fma(q, x, 0.16666667139493802f);
  q = fma(q, x, 0.5f);
  return x * x * q;
}
static INLINE double expm1mx_near(double x) {
  double q = 7.647163731819816e-13;
  q = fma(q, x, 1.1470745597729725e-11);
  q = fma(q, x, 1.6059043836821613e-10);
  q = fma(q, x, 2.08767569878681e-09);
  q = fma(q, x, 2.505210838544172e-08);
  q = fma(q, x, 2.755731922398589e-07);
  q = fma(q, x, 2.7557319223985893e-06);
  q = fma(q, x, 2.48015873015873e-05);
  q = fma(q, x, 0.0001984126984126984);
  q = fma(q, x, 0.001388888888888889);
  q = fma(q, x, 0.008333333333333333);
  q = fma(q, x, 0.041666666666666664);
  q = fma(q, x, 0.16666666666666666);
  q = fma(q, x, 0.5);
  return x * x * q;
}
template <class R> static INLINE R expm1mx(R x) {  // exp(x) - 1 - x
  return absolute(x) < R(0.5) ? expm1mx_near(x) : expm1(x) - x;
}
// p·log(p/q) - p + q for p = exp(x), q = exp(y)
template <class R> static INLINE R divergence(R x, R y) {
  R gap = x == y ? R(0) : y - x, p = exp(x);
  R far = expsub(y, x) - mulz(p, gap);
  return absolute(gap) < R(0.5) ? p * expm1mx(gap) : far;
}
template <class R> static INLINE R log1pmx(R x) {  // log(1 + x) - x = 2 artanh(s) - x with s = x/(2 + x)
  R s = x / (R(2) + x), w = s * s, q = R(0.034482758620689655);
  q = fma(q, w, R(0.037037037037037035));
  q = fma(q, w, R(0.04));
  q = fma(q, w, R(0.043478260869565216));
  q = fma(q, w, R(0.047619047619047616));
  q = fma(q, w, R(0.05263157894736842));
  q = fma(q, w, R(0.058823529411764705));
  q = fma(q, w, R(0.06666666666666667));
  q = fma(q, w, R(0.07692307692307693));
  q = fma(q, w, R(0.09090909090909091));
  q = fma(q, w, R(0.1111111111111111));
  q = fma(q, w, R(0.14285714285714285));
  q = fma(q, w, R(0.2));
  q = fma(q, w, R(0.3333333333333333));
  return absolute(x) < R(0.5) ? s * (R(2) * w * q - x) : log1p(x) - x;
}
template <class R> static INLINE R tanh(R x) {
  R a = expm1(R(-2) * absolute(x)), y = -a / (R(2) + a);
  y = x == 0 ? x : y;
  return x < 0 ? -y : y;
}
// x^y by way of double, where a float's result has all its digits: 2 to the y·log2|x|, each to some 35 bits
static INLINE float pow(float x, float y) {
  double k, a = absolute((double)x), s = split(a, k);
  s = (s - 1.) / (s + 1.);
  double w = s * s, q = 0.28288502340748234;
  q = fma(q, w, 0.31990680380701336);
  q = fma(q, w, 0.41220922406110433);
  q = fma(q, w, 0.5770779426603044);
  q = fma(q, w, 0.9617966941122649);
  q = fma(q, w, 2.885390081777851);
  double l = fma(q, s, k);
  l = a == 0. ? -lim<double>::inf : a == lim<double>::inf ? a : l;
  double t = (a == 1.) | (y == 0.f) ? 0. : (double)y * l;
  t = t < -1000. ? -1000. : t;
  t = t > 1000. ? 1000. : t;
  double u = t + round_magic_d, f = t - (u - round_magic_d), r = 1.5303700711365693e-05;
  r = fma(r, f, 0.00015469729214118296);
  r = fma(r, f, 0.0013333478473685416);
  r = fma(r, f, 0.009618025613318034);
  r = fma(r, f, 0.055504109063258665);
  r = fma(r, f, 0.24022651213498092);
  r = fma(r, f, 0.6931471805568324);
  r = fma(r, f, 1.) * pow2_of(u, 1023);
  double v = y, h = v * 0.5;
  bool whole = std::floor(v) == v, odd = whole & (std::floor(h) != h);
  r = odd ? __builtin_copysign(r, (double)x) : r;
  r = (x < 0.f) & !whole & (a != lim<double>::inf) ? lim<double>::nan : r;
  r = (x != x) & (y != 0.f) ? (double)x : r;
  return (float)r;
}
static INLINE double pow(double x, double y) { return std::pow(x, y); }
// Powers where it is known, before the loop, that the exponent is a small whole number: products, rounded once
static INLINE bool small_power(float y) { return y >= 0.f && y <= 15.f && y == (float)(int)y; }
static INLINE bool small_power(double y) { return y == 0. || y == 1. || y == 2.; }
struct products {};
static INLINE float pow(products, float x, float y) {
  const int n = (int)y;
  const double b = x, b2 = b * b, b4 = b2 * b2, b8 = b4 * b4;
  const double low = (n & 1 ? b : 1.) * (n & 2 ? b2 : 1.), high = (n & 4 ? b4 : 1.) * (n & 8 ? b8 : 1.);
  return (float)(low * high);
}
static INLINE double pow(products, double x, double y) { return y == 0. ? 1. : y == 1. ? x : x * x; }
using std::floor;
using std::sqrt;
template <class R> static INLINE R nearest(R x) { return std::rint(x); }  // halves to the even one
"""
