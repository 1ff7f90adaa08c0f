"""Two engines' captures of one function, compared with each other: torch.compile's and this engine's. Layer 63.

visits makes of a recording the instructions in the order in which an engine came to them; alignment pairs those of two
recordings; guard_claims says in words that both share what a guard relies on; calls reads what an
operator is given and makes, and operators pairs those of both; divergences finds where the two part, and why;
two_captures is what people hold, and two_captures_text how it prints. No torch is needed.
"""
