"""The command line: thin commands over `Table`, and how their results look. Private; the commands are the interface."""
