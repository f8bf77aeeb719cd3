"""Text to syntax tree and back: `parse` and `format_loss`. lark is imported when something is parsed."""

from lossdsl.syntax.format import format_loss
from lossdsl.syntax.parse import parse, parse_expression
from lossdsl.syntax.printing import print_expression, print_loss

__all__ = ["format_loss", "parse", "parse_expression", "print_expression", "print_loss"]
