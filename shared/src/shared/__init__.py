"""What every member agrees on: ids, messages, subjects, the session record, errors, the bus."""
