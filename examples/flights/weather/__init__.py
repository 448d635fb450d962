"""The database in which aircraft and weather live, and the job that brings it along."""
