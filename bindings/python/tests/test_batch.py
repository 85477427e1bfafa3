# SPDX-License-Identifier: Apache-2.0
"""Rows, their logits, and memory that is shared with the library."""

import math

import pytest

import colibri
from colibri import Logits

try:
    import numpy
except ImportError:
    numpy = None


@pytest.fixture
def decoded(model, ids):
    with model.slot() as slot, model.batch() as batch:
        batch.add(slot, ids, logits=Logits.ALL)
        batch.decode()
        yield batch


def test_rows_are_numbered_and_only_those_that_asked_have_logits(model, ids):
    with model.slot() as one, model.slot() as two, model.batch() as batch:
        assert bool(batch)
        assert batch.add(one, ids[:4], logits=Logits.NONE) == 0
        assert batch.add(two, ids[:3]) == 4
        assert batch.add(one, ids[4:5], logits=Logits.LAST) == 7
        assert len(batch) == 8
        batch.decode()
        for row in range(8):
            batch.check_row(row)
        assert len(batch.logits(6)) == len(batch.logits(7)) == model.facts.vocabulary_size
        for row in (0, 5, 8, 2**32):
            with pytest.raises(colibri.ArgumentError):
                batch.logits(row)
        with pytest.raises(colibri.ArgumentError):
            batch.check_row(8)
        with pytest.raises(colibri.StateError):
            batch.add(one, [1])


def test_the_same_rows_have_the_same_bits_however_they_are_cut(model, ids):
    results = []
    for cut in (1, 3, len(ids)):
        with model.slot() as slot, model.batch() as batch:
            for begin in range(0, len(ids), cut):
                row = batch.add(slot, ids[begin : begin + cut])
                last = row + len(ids[begin : begin + cut]) - 1
                batch.decode()
                logits = bytes(batch.logits(last))
                batch.clear()
            results.append(logits)
    assert results[0] == results[1] == results[2]


def test_logits_are_read_only_floats(decoded):
    logits = decoded.logits(0)
    assert (logits.format, logits.itemsize, logits.readonly) == ("f", 4, True)
    assert all(map(math.isfinite, logits))


def test_the_largest_logit_is_the_greedy_token(model, ids, decoded):
    logits = decoded.logits(len(ids) - 1).tolist()
    with model.scheduler(n_slots=1) as scheduler:
        scheduler.submit(ids, max_tokens=1, ignore_model_stops=True)
        tokens = [event.token for event in scheduler.run() if event.token is not None]
    assert tokens == [logits.index(max(logits))]


def test_memory_in_use_is_not_taken_away(decoded):
    logits = decoded.logits(0)
    first = logits[0]
    for end in (decoded.clear, decoded.close, decoded._model.close):
        with pytest.raises(colibri.BusyError, match="logits"):
            end()
    assert logits[0] == first
    logits.release()
    decoded.clear()
    assert len(decoded) == 0


def test_logits_keep_batch_and_model_alive(ids):
    from conftest import TINY_PACKED

    def make():
        model = colibri.Model(TINY_PACKED)
        batch = model.batch()
        batch.add(model.slot(), ids)
        batch.decode()
        return batch.logits(len(ids) - 1)

    logits = make()
    assert all(map(math.isfinite, logits))


@pytest.mark.skipif(numpy is None, reason="numpy is not installed")
def test_numpy_sees_the_logits_without_a_copy(decoded):
    view = decoded.logits(0)
    array = numpy.asarray(view)
    assert array.dtype == numpy.float32 and array.shape == (len(view),)
    assert not array.flags.owndata and not array.flags.writeable
    assert array.tolist() == view.tolist()
    other = numpy.asarray(decoded.logits(0))
    assert other.ctypes.data == array.ctypes.data
    del view
    with pytest.raises(colibri.BusyError):
        decoded.clear()
    del array, other
    decoded.clear()


@pytest.mark.skipif(numpy is None, reason="numpy is not installed")
def test_numpy_arrays_are_taken_as_ids(model, ids):
    array = numpy.asarray(ids, dtype=numpy.int64)
    assert model.tokenizer.decode(array) == model.tokenizer.decode(ids)
    with model.slot() as slot, model.batch() as batch:
        batch.add(slot, array)
        batch.decode()
        assert slot.tokens == ids


def test_wrong_tokens_are_refused_and_nothing_was_added(model):
    with model.slot() as slot, model.batch() as batch:
        for tokens in ([], [-1], [10**6], [2**40]):
            with pytest.raises(colibri.ArgumentError):
                batch.add(slot, tokens)
        with pytest.raises(colibri.ArgumentError):
            batch.add(slot, [1], logits=7)
        assert len(batch) == 0


def test_rows_keep_their_slot_alive(model):
    batch = model.batch()
    batch.add(model.slot(), [1, 2, 3])
    batch.decode()
    assert model.stats().n_slots_in_use == 1
    batch.close()
    assert model.stats().n_slots_in_use == 0
