"""Text to syntax tree and back: `parse` and `format_loss`. lark is imported when something is parsed."""

from lossdsl.syntax.parse import parse, parse_expression

__all__ = ["parse", "parse_expression"]
