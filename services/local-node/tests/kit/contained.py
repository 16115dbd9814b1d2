"""Run a program where namespaces are refused, as a plain container does: python contained.py PROGRAM ARGUMENT…"""

from __future__ import annotations

import os
import sys

from confinement import linux, seccomp

if __name__ == "__main__":
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    program = seccomp.build_filter(linux.MACHINE, own_namespaces=True, memory_bounded=True)
    linux.SeccompProgram(program).install()
    os.execv(sys.argv[1], sys.argv[1:])
