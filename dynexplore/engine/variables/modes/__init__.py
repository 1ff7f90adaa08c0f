"""Context managers and the modes of torch that traced code enters: grad mode, autocast, inference mode, devices."""
