"""Which process is a worker's: told by its connection, of which both ends count."""

from agent_sandbox.demo.victims import sockets_between

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:9C40 0100007F:59A1 01 00000000:00000000 00:00000000 00000000     0        0 111 1 0 20 4 0 10 -1
   1: 0100007F:9C40 0100007F:59A7 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 20 4 0 10 -1
   2: 0100007F:59A1 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 333 1 0 20 4 0 10 -1
   3: 0100007F:9C41 0100007F:59A1 06 00000000:00000000 00:00000000 00000000     0        0 444 1 0 20 4 0 10 -1
"""


def test_a_local_port_that_two_connections_share_does_not_name_the_wrong_process() -> None:
    """A server's connection to another one had the number of a worker's: the server was killed in its stead."""
    assert sockets_between({(0x9C40, 0x59A1)}, TABLE) == {"111"}


def test_a_connection_that_has_ended_is_nobodys() -> None:
    """Its row stays for a while."""
    assert sockets_between({(0x9C41, 0x59A1)}, TABLE) == set()
