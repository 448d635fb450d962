"""The operations of `Catalog`, each a function of its own module: the tables of a warehouse, its sessions and jobs."""
