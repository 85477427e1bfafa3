# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while the library works, sleeps, or opens: KeyboardInterrupt soon, and nothing is lost."""

import signal
import time

import pytest
from conftest import start_program

PROGRAMS = {
    "a long generation": """
print("ready", flush=True)
try:
    while True:
        colibri.generate("Once upon a time", model=MODEL, ignore_model_stops=True)
except KeyboardInterrupt:
    print("interrupted")
""",
    "a stream": """
model = colibri.Model(MODEL)
try:
    while True:
        for piece in model.stream("Once upon a time", ignore_model_stops=True):
            print("ready", flush=True)
except KeyboardInterrupt:
    print("interrupted")
print(model.stats().n_rows > 0)
""",
    "a sleeping step": """
model = colibri.Model(MODEL)
scheduler = model.scheduler()
print("ready", flush=True)
try:
    scheduler.step(wait=True)
except KeyboardInterrupt:
    print("interrupted")
scheduler.submit([1, 2, 3], max_tokens=2)
assert [event.kind for event in scheduler.run()][-1] == colibri.EventKind.FINISHED
""",
    "a step that works": """
model = colibri.Model(MODEL, kernel_set="ref", n_threads=1, max_rows=64)
scheduler = model.scheduler()
request = scheduler.submit([5] * 200, max_tokens=3, ignore_model_stops=True)
print("ready", flush=True)
tokens = []
interrupted = 0
while len(tokens) < 3:
    try:
        scheduler.step(wait=True)
        tokens += [event.token for event in scheduler.events() if event.token is not None]
    except KeyboardInterrupt:
        interrupted += 1
assert interrupted == 1
print("interrupted")
""",
    "opening again and again": """
print("ready", flush=True)
try:
    while True:
        colibri.Model(MODEL).close()
except KeyboardInterrupt:
    print("interrupted")
""",
    "another thread that steps": """
import threading
model = colibri.Model(MODEL, n_slots=2, n_engines=2)
is_ending = False
def drive():
    with model.scheduler() as scheduler:
        while not is_ending:
            scheduler.submit([1, 2, 3], max_tokens=20)
            for _ in scheduler.run():
                pass
thread = threading.Thread(target=drive)
thread.start()
print("ready", flush=True)
try:
    thread.join()
except KeyboardInterrupt:
    is_ending = True
    thread.join()
    print("interrupted")
""",
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_control_c_interrupts(what):
    with start_program(PROGRAMS[what]) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, complaint = process.communicate(timeout=60)
        assert (process.returncode, complaint) == (0, "")
        assert "interrupted\n" in output
        assert time.monotonic() - begin < 20


def test_control_c_that_nobody_catches_ends_the_program_as_python_does():
    program = "print('ready', flush=True)\nwhile True: colibri.generate('A', model=MODEL)\n"
    with start_program(program) as process:
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        complaint = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGINT
    assert complaint.rstrip().endswith("KeyboardInterrupt")
    assert complaint.count("Traceback") == 1


STRIKES = """
import gc, random, signal, time
from colibri import _resource
def strike(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, strike)
random.seed(1)
model = colibri.Model(MODEL, n_threads=1, n_slots=4, n_engines=4, log=lambda *_: None, log_level=4)
def open_and_close():
    with colibri.Model(MODEL, n_threads=1) as other:
        other.stats()
def use_children():
    with model.slot() as slot, model.batch() as batch:
        batch.add(slot, [1, 2])
        batch.decode()
        with slot.fork() as fork:
            fork.save()
def forget_children():
    model.slot(), model.scheduler(n_slots=1), model.tokenizer.stream_decoder().push(3)
def generate():
    model.generate([1, 2, 3], max_tokens=2)
n_strikes = 0
while n_strikes < 100:
    function = random.choice([open_and_close, use_children, forget_children, generate])
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 0.02), 0.05)
        while True:
            function()
    except (KeyboardInterrupt, colibri.ColibriError):
        n_strikes += 1
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
gc.collect()
for _ in range(2):
    model.generate([1], max_tokens=1)
stats = model.stats()
print(stats.n_engines_in_use, stats.n_slots_in_use)
model.close()
print([it.kind for it in _resource._live.values() if it.is_open])
"""


def test_control_c_at_any_moment_leaks_nothing():
    with start_program(STRIKES) as process:
        output = process.communicate(timeout=120)[0]
    # Python itself writes to stderr of what struck at the first line of a finalizer.
    assert (process.returncode, output) == (0, "0 0\n[]\n")
