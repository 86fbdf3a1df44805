"""Scheduling scenarios as data: reading them, running them through the engine, comparing what comes out."""
