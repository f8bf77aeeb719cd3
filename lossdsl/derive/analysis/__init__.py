"""What a loss is like, found without being asked: its properties, its shape in the probability and in the margin."""
