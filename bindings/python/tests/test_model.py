# SPDX-License-Identifier: Apache-2.0
"""Opening, facts, plans, progress, log lines, closing."""

import os
import sys

import pytest
from conftest import STORY, TINY_PACKED, greedy

import colibri


def test_facts_are_those_of_the_options(model):
    facts = model.facts
    assert (facts.n_threads, facts.n_slots, facts.n_engines) == (2, 3, 3)
    assert facts.context_tokens == 512
    assert facts.has_tokenizer is True
    assert facts.activations is colibri.Activations.INT8
    assert facts.kv_type is colibri.KvType.F32
    assert facts.kernel_set in ("ref", "avx2", "avx512")
    assert facts.model_type == "glm_moe_dsa"
    model.close()
    assert model.facts == facts  # nothing in it points into the model
    assert "closed" in repr(model)


def test_a_path_may_be_any_file_of_the_snapshot_and_any_kind_of_path():
    for path in (str(TINY_PACKED), os.fsencode(TINY_PACKED), TINY_PACKED / "config.json"):
        with colibri.Model(path) as model:
            assert model.is_open


def test_paths_may_have_any_letters(tmp_path):
    folder = tmp_path / "größe 模型"
    folder.symlink_to(TINY_PACKED)
    with colibri.Model(folder) as model:
        assert model.is_open
    with pytest.raises(colibri.NotFoundError, match="größe"):
        colibri.Model(tmp_path / "größe")


def test_description_stats_and_stop_ids(model):
    assert model.describe()["snapshot"]["model_type"] == "glm_moe_dsa"
    assert model.describe()["stop_ids"] == model.stop_ids
    before = model.stats()
    assert before.n_rows == 0
    greedy(model, [1, 2, 3], 4)
    after = model.stats()
    assert after.n_rows == 6
    assert after.expert_misses > 0
    assert "n_rows=6" in repr(after)


def test_plans_need_no_opening():
    plan = colibri.plan(TINY_PACKED, n_slots=2)
    assert (plan.is_feasible, plan.n_slots) == (1, 2)
    assert colibri.plan(TINY_PACKED, ram_budget_bytes=1000).is_feasible == 0
    text = colibri.plan_json(TINY_PACKED, n_slots=2)
    assert text["total_bytes"] == sum(text["items"].values())
    assert colibri.describe(TINY_PACKED)["experts"]["count"] == text["experts"]["count"]


def test_a_model_can_be_opened_without_its_tokenizer():
    with colibri.Model(TINY_PACKED, skip_tokenizer=True) as model:
        assert model.tokenizer is None
        assert len(model.generate([1, 2, 3], max_tokens=2, ignore_model_stops=True).tokens) == 2
        with pytest.raises(colibri.UnsupportedError):
            model.generate("text")
        with pytest.raises(colibri.UnsupportedError):
            next(model.stream([1]))


def test_progress_never_falls_and_ends_at_the_total():
    seen = []
    colibri.Model(TINY_PACKED, progress=lambda *bytes: seen.append(bytes)).close()
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] > 0


def test_false_from_progress_stops_the_opening():
    with pytest.raises(colibri.CancelledError):
        colibri.Model(TINY_PACKED, progress=lambda done, total: False)


def test_what_progress_raises_comes_out_of_the_opening():
    class Mine(Exception):
        pass

    def fail(_done, _total):
        raise Mine

    with pytest.raises(Mine):
        colibri.Model(TINY_PACKED, progress=fail)


def test_log_lines_come_whole_and_not_after_closing():
    lines = []
    model = colibri.Model(
        TINY_PACKED,
        log=lambda level, line: lines.append((level, line)),
        log_level=colibri.LogLevel.DEBUG,
    )
    greedy(model, [1, 2], 2)
    model.close()
    assert lines
    assert all(level in list(colibri.LogLevel) and "\n" not in line for level, line in lines)
    n_lines = len(lines)
    with colibri.Model(TINY_PACKED) as other:
        greedy(other, [1, 2], 2)
    assert len(lines) == n_lines


def test_what_log_raises_goes_to_the_hook(monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda it: unraisable.append(it.exc_type))

    def fail(_level, _line):
        raise ZeroDivisionError

    colibri.Model(TINY_PACKED, log=fail, log_level=colibri.LogLevel.DEBUG).close()
    assert set(unraisable) == {ZeroDivisionError}


def test_an_interrupt_inside_log_is_raised_after_the_call():
    def interrupt(_level, _line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        colibri.Model(TINY_PACKED, log=interrupt, log_level=colibri.LogLevel.DEBUG)


def test_closing_ends_the_children_and_may_be_repeated(model):
    slot, batch, scheduler = model.slot(), model.batch(), model.scheduler(n_slots=1)
    tokenizer = model.tokenizer
    decoder = tokenizer.stream_decoder()
    batch.add(slot, [1, 2])
    model.close()
    model.close()
    assert not model.is_open and not tokenizer.is_open
    for use in (
        slot.save,
        batch.clear,
        scheduler.step,
        decoder.flush,
        model.stats,
        model.slot,
        lambda: tokenizer.size,
    ):
        with pytest.raises(colibri.HandleError):
            use()
    for child in (slot, batch, scheduler, decoder, tokenizer):
        child.close()


def test_two_models_side_by_side_give_what_each_gives_alone(ids):
    with colibri.Model(TINY_PACKED) as one:
        alone = greedy(one, ids, 12)
        with colibri.Model(TINY_PACKED, kernel_set="ref", n_threads=1) as two:
            first, second = one.scheduler(), two.scheduler()
            streams = {first: [], second: []}
            for scheduler in streams:
                scheduler.submit(ids, max_tokens=12, ignore_model_stops=True)
            for _ in range(len(ids) + 14):
                for scheduler, tokens in streams.items():
                    scheduler.step()
                    tokens += [e.token for e in scheduler.events() if e.token is not None]
            assert list(streams.values()) == [alone, alone]


def test_the_demonstration_model_is_beside_the_library():
    assert (colibri.default_model() / "config.json").is_file()
    with colibri.Model() as model:
        assert model.generate(STORY, max_tokens=3).text
