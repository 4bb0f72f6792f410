"""Check configs, data and checkpoints before the work begins; each check raises a RebnnError."""
