# SPDX-License-Identifier: Apache-2.0
"""A class for every status, and what its objects carry."""

import copy
import pickle

import pytest
from conftest import TINY, TINY_PACKED

import colibri

CLASSES = colibri.ColibriError.__subclasses__()


@pytest.mark.parametrize("kind", CLASSES)
def test_codes_and_names_are_those_of_the_library(kind):
    assert colibri.status_name(kind.status) == kind.name
    assert kind.__doc__


@pytest.mark.parametrize("kind", CLASSES)
def test_a_status_becomes_its_class_with_code_and_text(kind):
    error = colibri._errors.error_of(kind.status, "what was wrong")
    assert type(error) is kind
    assert (error.code, error.text, str(error)) == (kind.status, "what was wrong", "what was wrong")


def test_a_code_of_a_later_version_is_a_plain_error():
    error = colibri._errors.error_of(-77, "new")
    assert type(error) is colibri.ColibriError
    assert error.code == -77


def test_errors_survive_copying_and_pickling():
    error = colibri._errors.error_of(-77, "new")
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(other), other.code, other.text) == (type(error), -77, "new")


def test_python_callers_can_catch_the_usual_classes():
    assert issubclass(colibri.ArgumentError, ValueError)
    assert issubclass(colibri.NotFoundError, LookupError)
    assert issubclass(colibri.OutOfMemoryError, MemoryError)
    assert issubclass(colibri.NonFiniteError, ArithmeticError)


def test_argument():
    with pytest.raises(colibri.ArgumentError, match="n_threads"):
        colibri.Model(TINY_PACKED, n_threads=5000)


@pytest.mark.parametrize("value", [-1, 2**32])
def test_numbers_are_not_cut_to_the_width_of_the_field(value):
    with pytest.raises(colibri.ArgumentError, match=f"n_threads is {value}"):
        colibri.Model(TINY_PACKED, n_threads=value)


def test_unsupported():
    with pytest.raises(colibri.UnsupportedError):
        colibri.verify(TINY)  # carries no checksums


def test_not_found(tmp_path):
    with pytest.raises(colibri.NotFoundError) as caught:
        colibri.Model(tmp_path / "nothing")
    assert caught.value.code == -3
    assert "nothing" in caught.value.text


def test_unknown_options_are_type_errors(model):
    for call in (colibri.Model, colibri.plan, model.scheduler, model.generate):
        with pytest.raises(TypeError):
            call("x", no_such_option=1)


def test_a_path_with_a_nul_is_refused():
    with pytest.raises(colibri.ArgumentError, match="NUL"):
        colibri.Model("a\0b")


def test_handle(model):
    slot = model.slot()
    slot.close()
    with pytest.raises(colibri.HandleError, match="slot is closed"):
        len(slot)


def test_budget():
    with pytest.raises(colibri.BudgetError):
        colibri.Model(TINY_PACKED, ram_budget_bytes=1000)


def test_capacity(model):
    slots = [model.slot() for _ in range(3)]
    with pytest.raises(colibri.CapacityError):
        model.slot()
    assert len(slots) == 3


def test_context(model):
    with model.scheduler() as scheduler, pytest.raises(colibri.ContextError, match="513"):
        scheduler.submit([1] * 513)


def test_state(model):
    with model.batch() as batch, pytest.raises(colibri.StateError):
        batch.decode()


def test_format(model):
    with model.slot() as slot, pytest.raises(colibri.FormatError):
        slot.restore(b"nonsense" * 100)


def test_incomplete(tmp_path):
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((TINY_PACKED / name).read_bytes())
    with pytest.raises((colibri.IncompleteError, colibri.NotFoundError)):
        colibri.Model(tmp_path)


def test_mismatch(model):
    with colibri.Model(TINY_PACKED, activations=colibri.Activations.FLOAT) as other:
        blob = other.slot().save()
    with model.slot() as slot, pytest.raises(colibri.MismatchError):
        slot.restore(blob)
