# SPDX-License-Identifier: Apache-2.0
"""The low level: one slot, one batch, the most probable next tokens of a text.

python logits.py [FOLDER_OF_A_MODEL]
"""

import heapq
import sys

import colibri

with colibri.Model(*sys.argv[1:2]) as model, model.slot() as slot, model.batch() as batch:
    tokenizer = model.tokenizer
    assert tokenizer is not None  # a model may come without one
    ids = colibri.encode_prompt(tokenizer, "Once upon a time, there was a little")
    row = batch.add(slot, ids) + len(ids) - 1
    batch.decode()
    with batch.logits(row) as logits:  # numpy.asarray(logits) would not copy it either
        for token in heapq.nlargest(5, range(len(logits)), logits.__getitem__):
            print(f"{logits[token]:8.3f}  {tokenizer.decode([token])!r}")
