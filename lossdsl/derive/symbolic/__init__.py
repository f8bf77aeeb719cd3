"""sympy's side of the compiler; no other room imports sympy.

sympy rewrites what it builds, and its derivatives lose digits; so nothing here is ever evaluated in a kernel. It
derives the partial derivatives that records leave to it, proves those that they declare, and differentiates whole
losses written out, to compare with what the reverse pass derived.
"""
