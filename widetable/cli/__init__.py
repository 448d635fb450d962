"""The command line: thin commands over `Table`, and the output of their results. Private: the commands are the API."""
