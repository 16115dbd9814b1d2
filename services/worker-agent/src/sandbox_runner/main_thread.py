"""Makes the one thread of a forked child its main thread also for signals, where another thread than the main one forked it.

CPython 3.13 and later note the arrival of a signal with the main thread's state, and in such a child that is still the state of a
thread which is not there: the signal is noticed when it breaks a system call off, and by code that computes never. There is no
function to mend it by. So the place is looked up by its contents, the main thread's number and the address of its state behind each
other; where they are not found exactly once, nothing is changed.
"""

import _thread
import ctypes
import sys
from contextlib import suppress

_SINCE = (3, 13)
_WORDS_SEARCHED = 2048
"""From the beginning of the interpreter's global data, which are some hundred KiB."""


def state_of_this_thread() -> int:
    """Returns the address of the calling thread's state; 0 where nothing needs it."""
    if sys.version_info < _SINCE:
        return 0
    read = ctypes.pythonapi.PyThreadState_Get
    read.restype = ctypes.c_size_t
    return int(read())


def become_main(former: int) -> None:
    """Has signals noted with the calling thread: the only one of a child that was just forked.

    Args:
        former: What `state_of_this_thread` said in the main thread of the process that forked it.
    """
    own = state_of_this_thread()
    if own == former:
        return
    with suppress(ValueError):  # an interpreter that does not show its data
        start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        words = (ctypes.c_size_t * _WORDS_SEARCHED).from_address(start)
        place = [_thread.get_ident(), former]
        found = [at for at in range(_WORDS_SEARCHED - 1) if words[at : at + 2] == place]
        if len(found) == 1:
            words[found[0] + 1] = own
