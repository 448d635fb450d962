"""What a change of the source's schema does to the target."""
