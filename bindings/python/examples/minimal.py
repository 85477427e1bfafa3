# SPDX-License-Identifier: Apache-2.0
"""Text in three lines.

python minimal.py [FOLDER_OF_A_MODEL]
"""

import sys

import colibri

with colibri.Model(*sys.argv[1:2]) as model:
    for piece in model.stream("Once upon a time", max_tokens=40):
        print(piece, end="", flush=True)
print()
