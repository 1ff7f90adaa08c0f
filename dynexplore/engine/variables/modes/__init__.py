"""Context managers and the torch modes that traced code enters: grad mode, autocast, inference mode, devices."""
