"""All flights that left New York City in 2013: Spark streams assemble one wide table, and tables around it."""
