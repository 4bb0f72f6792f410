"""What the commands look at before the work begins; each check raises a RebnnError."""
