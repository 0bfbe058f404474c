"""``python -m landstrip`` becomes the launcher, as the command ``landstrip`` of the wheel is."""

import os
import sys

from ._program import program

launcher = program()
os.execv(launcher, [launcher, *sys.argv[1:]])
