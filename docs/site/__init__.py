"""What makes the site of docs/ besides MkDocs: `make docs`, mkdocs.yml."""
