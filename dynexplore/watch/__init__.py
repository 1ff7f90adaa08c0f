"""torch.compile's own captures as recordings. Layer 9. The room is planned; nothing is in it yet."""
