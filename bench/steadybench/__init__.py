"""What every experiment shares: places to measure in, arms that take turns, figures and what is said about them."""
