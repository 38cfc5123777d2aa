"""What `payoutd doctor` looks at, one part a file: it reads and asks, and changes nothing."""
