# SPDX-License-Identifier: Apache-2.0
"""Requests: events, ends, cancelling from other threads, waiting."""

import threading
import time

import pytest
from conftest import greedy

import colibri
from colibri import EventKind, Finish, Sampler


@pytest.fixture
def scheduler(model):
    with model.scheduler() as it:
        yield it


def run_to_end(scheduler, request):
    events = [event for event in scheduler.run() if event.request == request.id]
    assert [event.kind for event in events].count(EventKind.FINISHED) == 1
    return events


def test_a_request_has_its_events_in_order(model, scheduler, ids):
    request = scheduler.submit(ids, max_tokens=5, user_data=2**64 - 1, wants_logprobs=True)
    assert (request.id, request.max_tokens) == (1, 5)
    events = run_to_end(scheduler, request)
    assert events[0].kind is EventKind.STARTED
    assert events[-1].kind is EventKind.FINISHED
    tokens = [event for event in events if event.kind is EventKind.TOKEN]
    assert len(tokens) == events[-1].n_generated == 5
    assert all(event.logprob < 0 for event in tokens)
    assert {event.user_data for event in events} == {2**64 - 1}
    assert events[-1].finish is Finish.LENGTH
    assert events[-1].error is None
    assert events[-1].n_prompt == events[-1].n_prompt_done == len(ids)
    text = "".join(event.text for event in events)
    assert text == model.tokenizer.decode([event.token for event in tokens])
    assert scheduler.stats().n_length == 1
    assert scheduler.model is model


def test_a_request_without_end_takes_what_the_context_leaves(scheduler, ids):
    assert scheduler.submit(ids).max_tokens == 512 - len(ids)


def test_requests_together_give_what_each_gives_alone(model, ids):
    prompts = [ids[:n] for n in (3, 5, 7, len(ids))]
    alone = [greedy(model, prompt, 10) for prompt in prompts]
    with model.scheduler(row_budget=7, prefill_chunk=3) as scheduler:
        requests = [
            scheduler.submit(prompt, max_tokens=10, ignore_model_stops=True) for prompt in prompts
        ]
        tokens = {request.id: [] for request in requests}
        for event in scheduler.run():
            if event.token is not None:
                tokens[event.request].append(event.token)
    assert list(tokens.values()) == alone


def test_stop_strings_and_stop_ids_end_a_request(scheduler, ids):
    request = scheduler.submit(ids, max_tokens=20, ignore_model_stops=True)
    events = run_to_end(scheduler, request)
    text = "".join(event.text for event in events)
    tokens = [event.token for event in events if event.token is not None]
    request = scheduler.submit(ids, max_tokens=20, stop_strings=["no such text", text[10:14]])
    events = run_to_end(scheduler, request)
    assert events[-1].finish is Finish.STOP_STRING
    assert "".join(event.text for event in events) == text[: text.index(text[10:14])]
    request = scheduler.submit(ids, max_tokens=20, stop_ids=[tokens[4]])
    events = run_to_end(scheduler, request)
    assert events[-1].finish is Finish.STOP_TOKEN
    assert events[-1].n_generated == tokens.index(tokens[4])


def test_a_seed_decides_sampled_tokens(model, scheduler, ids):
    def sample(seed):
        sampler = Sampler(temperature=1.5, top_k=50, top_p=0.95, min_p=0.01, seed=seed)
        request = scheduler.submit(ids, max_tokens=20, sampler=sampler)
        return [event.token for event in run_to_end(scheduler, request)]

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)


def test_wrong_requests_are_refused(scheduler):
    for options in (
        {"prompt_ids": []},
        {"prompt_ids": [10**6]},
        {"prompt_ids": [1], "sampler": Sampler(temperature=-1)},
        {"prompt_ids": [1], "sampler": Sampler(top_k=-1)},
        {"prompt_ids": [1], "stop_strings": [""]},
        {"prompt_ids": [1], "stop_strings": ["a\0b"]},
        {"prompt_ids": [1], "user_data": -1},
        {"prompt_ids": [1], "priority": 2**31},
    ):
        with pytest.raises(colibri.ArgumentError):
            scheduler.submit(**options)
    assert scheduler.stats().n_submitted == 0


def test_a_full_queue_is_a_capacity_error(model):
    with model.scheduler(max_queued=1) as scheduler:
        scheduler.submit([1])
        with pytest.raises(colibri.CapacityError):
            scheduler.submit([1])


def test_stop_cancel_pause_and_resume(scheduler, ids):
    first, second, third = (scheduler.submit(ids, max_tokens=300) for _ in range(3))
    scheduler.pause(third)
    while scheduler.stats().n_tokens < 6:
        scheduler.step()
    scheduler.stop(first)
    scheduler.cancel(second.id)
    finishes = {}
    while len(finishes) < 2:
        scheduler.step()
        finishes.update({e.request: e.finish for e in scheduler.events() if e.finish})
    assert finishes == {first.id: Finish.STOPPED, second.id: Finish.CANCELLED}
    assert scheduler.step().n_rows == 0
    scheduler.resume(third)
    assert scheduler.step().n_rows > 0
    with pytest.raises(colibri.NotFoundError):
        scheduler.cancel(first)
    with pytest.raises(colibri.NotFoundError):
        scheduler.stop(99)


def test_nothing_to_do_is_a_result(scheduler):
    result = scheduler.step()
    assert (result.n_rows, result.n_events, result.n_active) == (0, 0, 0)
    assert scheduler.events() == []
    assert list(scheduler.run()) == []


def test_waiting_ends_with_the_time_given(scheduler):
    begin = time.monotonic()
    assert scheduler.step(wait=True, timeout=0.05).n_rows == 0
    assert 0.04 < time.monotonic() - begin < 5


def test_with_events_that_wait_no_step_sleeps(scheduler, ids):
    scheduler.submit(ids, max_tokens=1)
    assert scheduler.step(wait=True).n_events > 0
    assert scheduler.step(wait=True).n_events > 0


@pytest.mark.parametrize("what", ["submit", "wake", "cancel", "resume"])
def test_a_sleeping_step_returns_on_news_from_another_thread(scheduler, ids, what):
    paused = None
    if what in ("cancel", "resume"):
        paused = scheduler.submit(ids, max_tokens=2)
        scheduler.pause(paused)
        scheduler.step()
        scheduler.events()
    action = {
        "submit": lambda: scheduler.submit(ids, max_tokens=2),
        "wake": scheduler.wake,
        "cancel": lambda: scheduler.cancel(paused),
        "resume": lambda: scheduler.resume(paused),
    }[what]
    timer = threading.Timer(0.1, action)
    timer.start()
    result = scheduler.step(wait=True, timeout=60)
    timer.join()
    assert bool(result.n_rows) == (what in ("submit", "resume"))
    assert bool(result.n_events) == (what != "wake")


def test_a_wake_up_before_the_sleep_is_not_lost(scheduler, ids):
    scheduler.wake()
    scheduler.submit(ids, max_tokens=2)
    assert len(list(scheduler.run())) > 2
    assert scheduler.step(wait=True, timeout=60).n_rows == 0
    begin = time.monotonic()
    scheduler.step(wait=True, timeout=0.05)
    assert time.monotonic() - begin > 0.04


def test_closing_while_another_thread_sleeps_ends_the_sleep(model):
    scheduler = model.scheduler(n_slots=1)
    caught = []

    def sleep():
        try:
            scheduler.step(wait=True, timeout=60)
        except colibri.HandleError as error:
            caught.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    time.sleep(0.05)
    scheduler.close()
    thread.join(30)
    assert not thread.is_alive() and len(caught) == 1


def test_what_is_submitted_during_a_run_is_run_too(scheduler, ids):
    scheduler.submit(ids, max_tokens=2)
    finished = []
    for event in scheduler.run():
        if event.kind is EventKind.FINISHED:
            finished.append(event.request)
            if len(finished) < 3:
                scheduler.submit(ids, max_tokens=2)
    assert finished == [1, 2, 3]


def test_a_failure_of_one_request_is_an_event_with_an_error():
    struct = colibri._structs.EventStruct(kind=3, finish=6, status=-40, token=-1, message=b"lost")
    event = colibri.scheduler._event(struct)
    assert event.finish is Finish.FAILED
    assert isinstance(event.error, colibri.InputOutputError)
    assert (event.error.text, event.text) == ("lost", "")


def test_ends_of_later_versions_keep_their_number():
    event = colibri.scheduler._event(colibri._structs.EventStruct(kind=3, finish=77, token=-1))
    assert event.finish == 77 and event.finish.name == "UNKNOWN_77"
