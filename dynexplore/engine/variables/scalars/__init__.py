"""Values without parts: constants, numbers that vary, text, members of enumerations."""
