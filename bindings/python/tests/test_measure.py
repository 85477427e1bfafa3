# SPDX-License-Identifier: Apache-2.0
"""Figures of the machine; only their form, for speed is no matter of tests."""

import pytest

import colibri
from colibri import Matrix


def test_kernels_are_measured_for_each_number_of_rows():
    machine, figures = colibri.measure_kernels(
        [1, 4], matrix=Matrix.INT8, columns=64, depth=256, min_runs=1, memory_bytes=2**20
    )
    assert [figure.n_rows for figure in figures] == [1, 4]
    assert all(figure.seconds > 0 for figure in figures)
    assert machine.n_threads == 1 and machine.kernel_set in (b"ref", b"avx2", b"avx512")


def test_bandwidth_is_a_number():
    assert colibri.measure_read_bandwidth(memory_bytes=2**20) > 0


def test_wrong_numbers_are_refused():
    for rows in ([], [0], [-1]):
        with pytest.raises(colibri.ArgumentError):
            colibri.measure_kernels(rows)
    with pytest.raises(colibri.ArgumentError):
        colibri.measure_read_bandwidth(n_threads=0)
