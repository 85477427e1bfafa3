# SPDX-License-Identifier: Apache-2.0
"""Packed snapshots: making, checking, stopping."""

import pytest
from conftest import STORY, TINY, TINY_PACKED

import colibri
from colibri import Scales, Weights


def test_a_snapshot_is_converted_verified_and_opened(tmp_path):
    seen = []
    report = colibri.convert(
        TINY,
        tmp_path / "packed",
        experts=Weights.INT8,
        dense=Weights.KEEP,
        scales=Scales.ABSMAX,
        n_threads=2,
        progress=lambda *bytes: seen.append(bytes),
    )
    assert report.n_quantised_matrices > 0 and 0 < report.relative_error < 0.1
    assert seen == sorted(seen) and seen[-1][0] == seen[-1][1]
    assert colibri.verify(tmp_path / "packed", n_threads=2).n_damaged == 0
    with colibri.Model(tmp_path / "packed", n_threads=2) as model:
        assert model.generate(STORY, max_tokens=3).text


def test_a_stopped_conversion_goes_on_with_resume(tmp_path):
    with pytest.raises(colibri.CancelledError):
        colibri.convert(TINY, tmp_path / "packed", progress=lambda done, total: done < total // 4)
    with pytest.raises(colibri.ArgumentError):
        colibri.convert(TINY, tmp_path / "packed")
    colibri.convert(TINY, tmp_path / "packed", resume=True)
    assert colibri.verify(tmp_path / "packed").n_damaged == 0


def test_an_interrupt_in_progress_stops_the_call(tmp_path):
    def interrupt(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        colibri.convert(TINY, tmp_path / "packed", progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        colibri.verify(TINY_PACKED, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        colibri.synthesise(tmp_path / "random", shape="colibri-tiny", progress=interrupt)


def test_damage_is_found(tmp_path):
    for path in TINY_PACKED.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    shard = tmp_path / "model-00001-of-00001.safetensors"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    report = colibri.verify(tmp_path)
    assert report.n_damaged == 1 and report.first_damaged


def test_random_snapshots_can_be_opened(tmp_path):
    colibri.synthesise(tmp_path / "random", shape="colibri-tiny", n_layers=2, seed=5)
    with colibri.Model(tmp_path / "random", n_threads=2) as model:
        assert model.tokenizer is None and model.facts.n_layers == 2
        assert len(model.generate([1, 2, 3], max_tokens=4).tokens) == 4
    with pytest.raises(colibri.ArgumentError):
        colibri.synthesise(tmp_path / "other", shape="nonsense")
