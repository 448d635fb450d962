"""What a table of a size needs: unit costs that were measured, a model of them, and points at which it was checked."""
