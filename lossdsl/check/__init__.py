"""The checker: names, axes and kinds; the syntax tree becomes a typed one."""
