# SPDX-License-Identifier: Apache-2.0
"""Objects that are collected, forgotten, forked: quiet in every order."""

import gc
import itertools
import os
import weakref

import pytest
from conftest import STORY, TINY_PACKED, run_program

import colibri
from colibri import _resource

HEAD = """
model = colibri.Model(MODEL, n_threads=2, n_slots=3, n_engines=3)
slot, batch, scheduler = model.slot(), model.batch(), model.scheduler(n_slots=1)
tokenizer = model.tokenizer
decoder = tokenizer.stream_decoder()
stream = model.stream("Once")
next(stream)
batch.add(slot, [1, 2])
batch.decode()
logits = batch.logits(1)
scheduler.submit([1, 2])
scheduler.step()
"""


def open_family():
    model = colibri.Model(TINY_PACKED, n_slots=3, n_engines=3)
    slot, batch = model.slot(), model.batch()
    scheduler, decoder = model.scheduler(n_slots=1), model.tokenizer.stream_decoder()
    batch.add(slot, [1, 2, 3])
    return [model, slot, batch, scheduler, decoder]


def is_nothing_left():
    gc.collect()
    return not _resource._live


@pytest.mark.parametrize("order", list(itertools.permutations(range(5), 3)))
def test_objects_may_be_forgotten_in_any_order(order):
    family = open_family()
    for index in order:
        family[index] = None
    del family
    assert is_nothing_left()


def test_children_keep_the_native_model_alive():
    model = colibri.Model(TINY_PACKED)
    scheduler = model.scheduler()
    is_gone = weakref.ref(model)
    del model
    scheduler.submit([1, 2], max_tokens=2)
    assert [event.token for event in scheduler.run() if event.token is not None]
    assert is_gone() is not None
    del scheduler
    assert is_gone() is None and is_nothing_left()


def test_objects_in_a_cycle_are_collected():
    family = open_family()
    family.append(family)
    for member in family[:1]:
        member.cycle = family
    del family, member
    assert is_nothing_left()


def test_a_failed_opening_leaves_nothing():
    with pytest.raises(colibri.CancelledError):
        colibri.Model(TINY_PACKED, progress=lambda done, total: False)
    assert is_nothing_left()


def test_closing_frees_memory_before_collection():
    model = colibri.Model(TINY_PACKED)
    n_files = len(os.listdir("/proc/self/fd"))
    model.close()
    assert len(os.listdir("/proc/self/fd")) < n_files
    assert not model.is_open


def test_collection_inside_a_callback_waits_for_its_end():
    doomed = [colibri.Model(TINY_PACKED)]

    def log(_level, _line):
        doomed.clear()

    with colibri.Model(TINY_PACKED, log=log, log_level=colibri.LogLevel.DEBUG) as model:
        assert not doomed
        model.generate(STORY, max_tokens=1)
        assert len([it for it in _resource._live.values() if it.kind == "model"]) == 1
    assert is_nothing_left()


ENDS = {
    "nothing is closed": "",
    "the model is forgotten first": "del model",
    "the model is closed first": "logits.release(); model.close()",
    "the children are forgotten": "del slot, batch, scheduler, tokenizer, decoder, logits",
    "objects are kept in a module": "import sys; sys.keep = [model, slot, batch, stream, logits]",
    "objects are in a cycle": "model.a = [model, slot]; model.a.append(model.a); del model",
    "modules go first": "import sys; sys.modules.clear()",
    "used at exit": "import atexit; atexit.register(lambda: scheduler.step())",
    "sys.exit": "import sys; sys.exit(0)",
    "an object of the builtins": "import builtins; builtins.keep = (scheduler, batch)",
    "used by a finalizer": (
        "class Late:\n"
        "  def __del__(self, scheduler=scheduler):\n"
        "    try: scheduler.step()\n"
        "    except colibri.HandleError: pass\n"
        "late = Late(); late.cycle = late"
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_interpreter_ends_quietly(end):
    assert run_program(HEAD + ENDS[end]) == ""


DAEMON = """
import threading
model = colibri.Model(MODEL, n_threads=2, n_slots=2, n_engines=2, log=print, log_level=1)
def drive():
    with model.scheduler(n_slots=1) as scheduler:
        while True:
            scheduler.submit([1, 2, 3], max_tokens=50)
            for event in scheduler.run():
                is_running.set()
def sleep():
    with model.scheduler(n_slots=1) as scheduler:
        scheduler.step(wait=True)
is_running = threading.Event()
for function in (drive, sleep):
    threading.Thread(target=function, daemon=True).start()
is_running.wait()
"""


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(0)", "del model"])
def test_the_interpreter_ends_quietly_while_daemon_threads_step(end):
    for _ in range(3):
        assert run_program(DAEMON + end) == ""


def test_an_exception_ends_the_program_with_its_own_trace_alone():
    program = """
import sys
try:
    with colibri.Model(MODEL) as model:
        scheduler = model.scheduler()
        raise ZeroDivisionError
except ZeroDivisionError:
    print("caught", model.is_open)
"""
    assert run_program(program) == "caught False\n"


FORK = """
import os, sys
model = colibri.Model(MODEL, n_threads=2, n_slots=2)
slot = model.slot()
child = os.fork()
if child == 0:
    for use in (model.stats, model.slot, lambda: len(slot), lambda: model.generate("A")):
        try:
            use()
        except colibri.StateError as error:
            assert "fork" in error.text
        else:
            os._exit(3)
    model.close()
    with colibri.Model(MODEL, n_threads=1) as other:
        print(len(other.generate("A", max_tokens=3).tokens), flush=True)
    del slot, model
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(len(model.generate("A", max_tokens=3).tokens))
"""


def test_a_forked_child_gets_an_error_and_ends_quietly():
    # Python 3.12 and newer warn of a fork in a process that has threads.
    assert run_program("import warnings\nwarnings.simplefilter('ignore')\n" + FORK) == "3\n3\n"
