"""Names that a generated module can't give to an input or a param, because Python or torch has them."""

from __future__ import annotations

import keyword

OPTIONS = ("reduction", "ignore_index", "denominator", "empty", "class_dim", "memory", "inplace", "aux", "check")

# What a Loss has as an nn.Module and by itself: a param of this name would hide it. A test compares with torch's.
_ATTRIBUTES = """
    T_destination add_module apply bfloat16 bind buffers call call_super_init children compile compiled cpu cuda double
    dump_patches elsewhere eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu
    load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters
    register_backward_hook register_buffer register_forward_hook register_forward_pre_hook
    register_full_backward_hook register_full_backward_pre_hook register_load_state_dict_post_hook
    register_load_state_dict_pre_hook register_module register_parameter register_state_dict_post_hook
    register_state_dict_pre_hook requires_grad_ restore set_extra_state set_submodule share_memory state_dict to
    to_empty train training type xpu zero_grad
"""
ATTRIBUTES = frozenset(_ATTRIBUTES.split())
_LOCAL = frozenset({"self", "loss", "params", "functional", "super"})  # what the text around an argument uses
KEYWORDS = frozenset(keyword.kwlist)


def owner(name: str, param: bool) -> str:
    """Who has a name that an input or a param of a loss therefore can't have in Python; "" where nobody does."""
    if name in KEYWORDS:
        return "a word of Python"
    if name in OPTIONS:
        return "an option of every call"
    if param and name in ATTRIBUTES:
        return "a method of every torch module"
    return "taken by the module's own text" if name in _LOCAL else ""


def reserved(param: bool) -> frozenset[str]:
    """All such names."""
    return KEYWORDS | frozenset(OPTIONS) | _LOCAL | (ATTRIBUTES if param else frozenset())
