// SPDX-License-Identifier: Apache-2.0
//
// Runs of whole backend operations.

#include "tests/cpu/backend_cases.h"

#include "cpu/cpu_backend.h"
#include "lib/base/parallel.h"
#include "tests/support/catch.h"

namespace colibri::test {

namespace {

constexpr uint32_t kThreads[] = {1, 2, 5};

}  // namespace

ScratchShape scratch_shape() {
  ScratchShape shape;
  shape.max_rows = 40;
  shape.n_heads = 20;
  shape.key_width = 48;
  shape.value_width = 32;
  shape.expert_width = 160;
  shape.n_experts_per_token = 4;
  shape.n_experts = 32;
  return shape;
}

Floats run_everywhere(const Operation &operation) {
  Floats first;
  for (const KernelRow &row : runnable_rows()) {
    for (const uint32_t n_threads : kThreads) {
      CAPTURE(row.name, n_threads);
      ThreadPool threads(n_threads);
      const auto backend = cpu::make_cpu_backend(threads, row.name);
      const auto scratch = backend->make_scratch(scratch_shape());
      const Floats result = operation(*backend, *scratch);
      if (first.empty()) first = result;
      REQUIRE(are_same(result.data(), first.data(), first.size()));
    }
  }
  return first;
}

LinearTask linear_task(const TestMatrix &matrix, const ActivationRows &rows, float *y,
                       bool uses_integers) {
  LinearTask task;
  task.matrix = matrix.view();
  task.input = rows;
  task.y = y;
  task.y_stride = matrix.layout.columns;
  task.uses_integers = uses_integers;
  return task;
}

ActivationRows slice(ActivationRows rows, size_t first, size_t n) {
  rows.x += first * rows.x_stride;
  rows.n_rows = static_cast<uint32_t>(n);
  QuantisedRows &quantised = rows.quantised;
  if (quantised.group == 0) return rows;
  quantised.q += first * quantised.q_stride;
  quantised.scales += first * quantised.group_stride;
  quantised.sums += first * quantised.group_stride;
  return rows;
}

}  // namespace colibri::test
