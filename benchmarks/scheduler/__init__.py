"""Benchmarks of the scheduler's engine on traces of others, and of its speed."""
