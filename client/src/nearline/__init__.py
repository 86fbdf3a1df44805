"""Nearline: versioned datasets next to the GPUs that train on them."""
