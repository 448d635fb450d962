"""What monitoring reads of a job."""
