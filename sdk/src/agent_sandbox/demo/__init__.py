"""The demo: the whole product on this machine in less than two minutes, on real input, with nothing left behind."""
