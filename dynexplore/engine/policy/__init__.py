"""Policy: what the engine traces and what it skips: users' marks, rules by file, functions that are constants."""
