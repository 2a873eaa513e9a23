// Replaced by the first test.
