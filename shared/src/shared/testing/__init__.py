"""What tests share: real servers, connections for each role, names that no other test uses."""
