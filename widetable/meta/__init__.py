"""Jobs over tables under barriers: who writes and reads what, and how far all of it is (0043)."""
