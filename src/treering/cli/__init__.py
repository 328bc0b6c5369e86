"""The command line: one file a verb; each parses, calls and renders, and decides nothing."""
