"""All flights that left New York City in 2013: four Spark streams assemble one wide table."""
