"""How exact a loss is: value and gradient of every backend against 110 digits, on rows where digits get lost."""
