"""The parts of `bench soak`: load, faults, and what is made of both."""
