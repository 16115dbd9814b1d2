"""What the labs stand on. The labs themselves are small programs in the folders beside: see labs/README.md."""
