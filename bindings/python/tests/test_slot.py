# SPDX-License-Identifier: Apache-2.0
"""The state of one sequence: growing, cutting, forking, saving."""

import pytest
from conftest import TINY_PACKED, WINDOWED

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


def test_without_windows_every_length_is_reusable(model, ids):
    with model.slot() as slot:
        feed(model, slot, ids)
        assert [slot.reusable(n) for n in range(len(ids) + 1)] == list(range(len(ids) + 1))
        assert slot.tokens == ids
        for length in (len(ids) + 1, -1, 2**32):
            with pytest.raises(colibri.ArgumentError):
                slot.reusable(length)
        slot.close()
        with pytest.raises(colibri.HandleError):
            slot.reusable(0)


def test_behind_a_window_a_slot_begins_anew():
    prompt = [3 + i * 7 % 50 for i in range(97)]
    options = {"n_threads": 1, "n_slots": 2, "context_tokens": 160, "max_rows": 16}
    with colibri.Model(WINDOWED, **options) as model, model.slot() as slot:

        def feed_from(slot, first):
            for begin in range(first, len(prompt), 16):
                logits = feed(model, slot, prompt[begin : begin + 16])
            return logits

        whole = feed_from(slot, 0)
        assert [slot.reusable(n) for n in (97, 48, 47, 0)] == [97, 48, 0, 0]
        for go in (slot.truncate, slot.fork):
            with pytest.raises(colibri.ArgumentError, match="0 can be reached"):
                go(47)
        assert len(slot) == 97
        with slot.fork(60) as part:
            assert feed_from(part, 60) == whole


@pytest.mark.parametrize("kind", [colibri.KvType.BF16, colibri.KvType.F16])
def test_narrow_slots_take_half_the_memory(kind):
    wide = colibri.plan(WINDOWED, kv_type=colibri.KvType.F32, context_tokens=160)
    narrow = colibri.plan(WINDOWED, kv_type=kind, context_tokens=160)
    assert narrow.kv_bytes_per_token * 2 == wide.kv_bytes_per_token
    with colibri.Model(WINDOWED, n_threads=1, context_tokens=160, kv_type=kind) as model:
        assert model.facts.kv_type is kind
        with model.slot() as slot:
            first = feed(model, slot, [3, 4, 5])
            slot.restore(slot.save())
            slot.truncate(0)
            assert feed(model, slot, [3, 4, 5]) == first


def test_a_slot_of_another_number_format_cannot_be_restored(model, ids):
    with model.slot() as slot:
        feed(model, slot, ids)
        blob = slot.save()
    kind = colibri.KvType.F16
    with colibri.Model(TINY_PACKED, context_tokens=512, kv_type=kind) as other:
        slot = other.slot()
        with pytest.raises(colibri.MismatchError):
            slot.restore(blob)


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
