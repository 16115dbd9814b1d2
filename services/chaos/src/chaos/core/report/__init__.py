"""From a history to what people and programs read. Pure."""
