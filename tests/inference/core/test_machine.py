"""One BLAS thread, as long as somebody computes with one."""

from threading import Event, Thread

import scipy.linalg  # noqa: F401, numbers of threads are set of what is loaded
from bke.inference.core.machine import single_threaded_blas
from threadpoolctl import threadpool_info, threadpool_limits


def threads():
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_who_leaves_first_does_not_leave_for_the_other():
    """Two threads overlap: the one that entered first leaves first."""
    entered, left = Event(), Event()
    counts = []

    def second():
        with single_threaded_blas():
            entered.set()
            left.wait()
            counts.append(threads())

    with threadpool_limits(2, user_api="blas"):
        other = Thread(target=second)
        with single_threaded_blas():
            assert threads() == {1}
            other.start()
            entered.wait()
        assert threads() == {1}
        left.set()
        other.join()
        assert counts == [{1}]
        assert threads() == {2}


def test_another_thread_may_set_the_number_afterwards():
    """While the one that computed is still alive, to which threadpoolctl would leave it."""
    left, done = Event(), Event()

    def first():
        with single_threaded_blas():
            pass
        left.set()
        done.wait()

    other = Thread(target=first)
    other.start()
    left.wait()
    for count in (2, 1):
        with threadpool_limits(count, user_api="blas"):
            assert threads() == {count}
    done.set()
    other.join()


def test_an_error_and_a_context_within_put_the_number_back():
    with threadpool_limits(2, user_api="blas"):
        try:
            with single_threaded_blas(), single_threaded_blas():
                raise ValueError
        except ValueError:
            assert threads() == {2}
