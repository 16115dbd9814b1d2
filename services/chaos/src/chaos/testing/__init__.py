"""What tests of the lab share."""
