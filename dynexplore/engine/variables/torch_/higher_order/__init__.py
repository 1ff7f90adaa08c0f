"""Higher-order operators (`torch.cond`, `while_loop`, activation checkpointing, flex attention) and functorch transforms."""
