"""Benchmarks: one question a module, ratios against a peer within one run."""
