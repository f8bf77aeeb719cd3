"""What `lossdsl new` writes: a loss, a pack or a backend that works and is tested from the first minute."""
