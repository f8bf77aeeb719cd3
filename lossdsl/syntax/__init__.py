"""Text to syntax tree and back: `parse.parse` and `format.format_loss`. lark is imported when something is parsed."""
