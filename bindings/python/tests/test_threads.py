# SPDX-License-Identifier: Apache-2.0
"""Several Python threads, one model."""

import contextlib
import os
import threading
import time

import pytest
from conftest import TINY_PACKED, greedy

import colibri


def run_threads(*functions):
    """Runs them side by side; raises what one of them raised."""
    raised = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=[function]) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if raised:
        raise raised[0]


def test_two_threads_drive_two_schedulers(model, ids):
    expected = greedy(model, ids, 30)
    results = []
    run_threads(*[lambda: results.append(greedy(model, ids, 30))] * 2)
    assert results == [expected, expected]


def test_other_threads_run_during_a_step(ids):
    with colibri.Model(TINY_PACKED, kernel_set="ref", n_threads=1) as model:
        prompt = (ids * 50)[:60]
        with model.scheduler() as scheduler:
            scheduler.submit(prompt, max_tokens=1)
            ticks, is_done = [], threading.Event()

            def tick():
                while not is_done.wait(0.0005):
                    ticks.append(time.monotonic())

            thread = threading.Thread(target=tick)
            thread.start()
            begin = time.monotonic()
            scheduler.step()
            end = time.monotonic()
            is_done.set()
            thread.join()
    during = [moment for moment in ticks if begin < moment < end]
    assert len(during) >= 3


def test_a_second_step_at_once_is_busy_and_harms_nothing(model, ids):
    expected = greedy(model, ids, 40)
    busy = []

    def generate_meddled(scheduler):
        tokens, is_done = [], threading.Event()
        scheduler.submit(ids, max_tokens=40, ignore_model_stops=True)

        def meddle():
            while not is_done.is_set():
                try:
                    scheduler.step()
                except colibri.BusyError as error:
                    busy.append(error)

        def drive():
            while len(tokens) < 40:
                try:
                    scheduler.step()
                    tokens.extend(e.token for e in scheduler.events() if e.token is not None)
                except colibri.BusyError as error:
                    busy.append(error)
            is_done.set()

        run_threads(drive, meddle)
        return tokens

    # On a machine with much else to do, 40 steps may pass without two of them at once.
    end = time.monotonic() + 60
    with model.scheduler(n_slots=1) as scheduler:
        while not busy and time.monotonic() < end:
            assert generate_meddled(scheduler) == expected
    assert busy


def test_closing_during_a_step_is_busy_and_changes_nothing(ids):
    with colibri.Model(TINY_PACKED, kernel_set="ref", n_threads=1) as model:
        scheduler = model.scheduler()
        scheduler.submit((ids * 50)[:100], max_tokens=1)
        thread = threading.Thread(target=scheduler.step)
        thread.start()
        while not scheduler._resource.users:
            time.sleep(0.0001)
        for end in (model.close, scheduler.close):
            with pytest.raises(colibri.BusyError):
                end()
        thread.join()
        assert model.is_open and scheduler.stats().n_tokens == 1


def test_submitting_and_cancelling_from_many_threads(model, ids):
    with model.scheduler() as scheduler:
        is_done = threading.Event()
        finished = []

        def drive():
            while not is_done.is_set():
                scheduler.step(wait=True)
                finished.extend(event for event in scheduler.events() if event.finish)

        def submit():
            for _ in range(10):
                request = scheduler.submit(ids, max_tokens=20)
                with contextlib.suppress(colibri.NotFoundError):
                    scheduler.cancel(request)

        driver = threading.Thread(target=drive)
        driver.start()
        run_threads(submit, submit, submit)
        while len(finished) < 30:
            time.sleep(0.01)
        is_done.set()
        scheduler.wake()
        driver.join()
    assert sorted(event.request for event in finished) == list(range(1, 31))


def test_models_come_and_go_in_threads_without_leaks():
    def open_and_close():
        for _ in range(3):
            with colibri.Model(TINY_PACKED, n_threads=2) as model:
                model.generate([1, 2, 3], max_tokens=2)

    open_and_close()
    n_files = len(os.listdir("/proc/self/fd"))
    run_threads(open_and_close, open_and_close)
    assert len(os.listdir("/proc/self/fd")) == n_files
    assert not [it for it in colibri._resource._live.values() if it.kind == "model"]
