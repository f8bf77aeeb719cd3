"""What a generated module imports: torch, the standard library, and nothing else."""
