# SPDX-License-Identifier: Apache-2.0
"""The state of one sequence: growing, cutting, forking, saving."""

import pytest

import colibri
from colibri import Logits


def feed(model, slot, ids):
    """Adds ids to a slot; returns the bytes of the last row's logits."""
    with model.batch() as batch:
        row = batch.add(slot, ids) + len(ids) - 1
        batch.decode()
        return bytes(batch.logits(row))


def test_a_slot_grows_by_what_is_decoded(model, ids):
    with model.slot() as slot:
        assert (len(slot), bool(slot), slot.tokens) == (0, True, [])
        assert slot.capacity == 512
        assert slot.model is model
        feed(model, slot, ids)
        assert (len(slot), slot.tokens) == (len(ids), ids)


def test_a_slot_can_be_cut_back(model, ids):
    with model.slot() as slot:
        whole = feed(model, slot, ids)
        slot.truncate(3)
        assert slot.tokens == ids[:3]
        assert feed(model, slot, ids[3:]) == whole
        with pytest.raises(colibri.ArgumentError):
            slot.truncate(len(ids) + 1)
        with pytest.raises(colibri.ArgumentError):
            slot.truncate(-1)


def test_a_fork_goes_on_with_the_same_bits(model, ids):
    with model.slot() as slot:
        feed(model, slot, ids[:-1])
        with slot.fork() as whole, slot.fork(2) as part:
            assert (len(whole), part.tokens) == (len(ids) - 1, ids[:2])
            slot.close()
            assert feed(model, whole, ids[-1:]) == feed(model, part, ids[2:])


def test_a_saved_slot_can_be_restored(model, ids):
    with model.slot() as slot, model.slot() as other:
        feed(model, slot, ids[:-1])
        blob = slot.save()
        for kind in (bytes, bytearray, memoryview):
            other.restore(kind(blob))
            assert other.tokens == ids[:-1]
        assert feed(model, other, ids[-1:]) == feed(model, slot, ids[-1:])


def test_an_empty_blob_is_refused(model):
    with model.slot() as slot, pytest.raises(colibri.ColibriError):
        slot.restore(b"")


def test_a_slot_whose_rows_wait_cannot_be_closed(model, ids):
    with model.slot() as slot, model.batch() as batch:
        batch.add(slot, ids, logits=Logits.NONE)
        with pytest.raises(colibri.BusyError):
            slot.close()
        batch.clear()
        slot.close()


def test_slots_return_to_the_pool_when_forgotten(model):
    for _ in range(10):
        model.slot()
    assert model.stats().n_slots_in_use == 0
