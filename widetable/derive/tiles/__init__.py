"""Tile tables of larger tiles that are kept from a table of smaller ones (option `tiles.from`)."""
