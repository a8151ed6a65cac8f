from __future__ import annotations

import random
import socket

from slurmsched.lab.ports import hold_ports


def test_two_labs_that_throw_the_same_dice_get_different_ports():
    with hold_ports(8, random.Random(1)) as first, hold_ports(8, random.Random(1)) as second:
        assert not set(first) & set(second)


def test_a_held_port_can_be_listened_on_by_a_daemon():
    with hold_ports(1, random.Random(2)) as (port,), socket.socket() as daemon:
        daemon.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        daemon.bind(("127.0.0.1", port))
        daemon.listen()


def test_a_port_somebody_listens_on_is_passed_over():
    with hold_ports(1, random.Random(3)) as (port,):
        pass
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with hold_ports(1, random.Random(3)) as (instead,):
            assert instead != port
