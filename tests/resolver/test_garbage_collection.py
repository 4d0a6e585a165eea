from __future__ import annotations

import gc
import os
import threading

import pytest

from habana_tf.resolver.garbage_collection import held


def test_rests_until_the_last_thread_is_out() -> None:
    inside, leave = threading.Event(), threading.Event()

    def compile() -> None:
        with held:
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=compile)
    thread.start()
    assert inside.wait(60)
    with held:
        assert not gc.isenabled()
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_stays_off_where_the_user_had_it_off() -> None:
    gc.disable()
    try:
        held(lambda: None)()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_is_on_after_an_error() -> None:
    with pytest.raises(ValueError), held:
        raise ValueError
    assert gc.isenabled()


def test_is_on_in_a_child_of_a_fork() -> None:
    with held:
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not gc.isenabled()
