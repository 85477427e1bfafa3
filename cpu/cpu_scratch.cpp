// SPDX-License-Identifier: Apache-2.0
//
// Sizes and places of the parts. Layout: worker parts; numbers, partial results and list of rows of
// attention; float rows, int8 rows, scales, sums of experts.
//
// A shape has 32-bit numbers, so the size of one worker part and that of one row stay far below 64
// bits. Their products with the numbers of workers and rows, and the sums of those, saturate: a
// size that no machine has is refused when the memory is asked for.

#include "cpu/cpu_scratch.h"

#include <algorithm>

#include "cpu/kernels.h"
#include "cpu/route_row.h"
#include "lib/base/checked_math.h"

namespace colibri::cpu {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kLeastGroup = 16;
// Query vectors and widened rows are padded to a multiple of that.
constexpr size_t kPaddedQueries = 16;
constexpr uint64_t kLeastRoundSpans = 16;

uint64_t align_up(uint64_t a, uint64_t unit) {
  return saturating_add(a, unit - 1) / unit * unit;
}

uint64_t query_vectors(const ScratchShape &shape) {
  return saturating_multiply(shape.max_rows, shape.n_heads);
}

// Query vectors of the largest bundle.
uint64_t bundle_queries(const ScratchShape &shape) {
  return std::min<uint64_t>(query_vectors(shape), kMaxAttentionQueries);
}

// The kernel's own, and the results of one span.
uint64_t attention_floats(const ScratchShape &shape) {
  const uint64_t n = bundle_queries(shape);
  return attention_scratch_floats(shape.key_width, shape.value_width, n) +
         n * (uint64_t{shape.value_width} + 2);
}

uint64_t worker_bytes(const ScratchShape &shape) {
  const uint64_t route = route_scratch_floats(shape.n_experts);
  const uint64_t floats =
      std::max<uint64_t>({attention_floats(shape), route, CpuScratch::kBlockFloats});
  return align_up(saturating_multiply(floats, sizeof(float)), kAlignment);
}

// Spans of a round, in query vectors. One worker alone has no rounds.
uint64_t partials(const ScratchShape &shape, uint32_t n_workers) {
  if (n_workers <= 1) return 0;
  return std::max<uint64_t>(2 * uint64_t{n_workers}, kLeastRoundSpans) * bundle_queries(shape);
}

struct AttentionBytes {
  uint64_t numbers, partials, rows;
};
AttentionBytes attention_bytes(const ScratchShape &shape, uint32_t n_workers) {
  const uint64_t partial_bytes = (uint64_t{shape.value_width} + 2) * sizeof(float);
  return {
      align_up(saturating_multiply(query_vectors(shape), 2 * sizeof(float)), kAlignment),
      align_up(saturating_multiply(partials(shape, n_workers), partial_bytes), kAlignment),
      align_up(saturating_multiply(shape.max_rows, sizeof(AttentionRows)), kAlignment),
  };
}

uint64_t before_experts(const ScratchShape &shape, uint32_t n_workers) {
  const AttentionBytes attention = attention_bytes(shape, n_workers);
  const uint64_t workers = saturating_multiply(worker_bytes(shape), n_workers);
  return saturating_add(
      workers,
      saturating_add(attention.numbers, saturating_add(attention.partials, attention.rows)));
}

uint64_t expert_rows(const ScratchShape &shape) {
  return saturating_multiply(shape.max_rows, shape.n_experts_per_token);
}

// In elements, for float and int8 rows alike.
uint64_t padded_width(const ScratchShape &shape) {
  return align_up(shape.expert_width, kAlignment);
}

uint64_t padded_groups(const ScratchShape &shape) {
  return align_up(shape.expert_width / kLeastGroup + 1, kAlignment / sizeof(float));
}

}  // namespace

// Transposed queries, scores of one block for every query, which become probabilities, four numbers
// per query, and the rows of one block widened to floats.
size_t attention_scratch_floats(size_t key_width, size_t value_width, size_t n_queries) noexcept {
  const size_t padded_queries = (n_queries + kPaddedQueries - 1) / kPaddedQueries * kPaddedQueries;
  const size_t width = std::max(key_width, value_width);
  const size_t padded_width = (width + kPaddedQueries - 1) / kPaddedQueries * kPaddedQueries;
  return padded_queries * (key_width + kAttentionBlock + 4) + kAttentionBlock * padded_width;
}
uint64_t CpuScratch::needed_bytes(const ScratchShape &shape, uint32_t n_workers) noexcept {
  const uint64_t per_row =
      saturating_add(saturating_multiply(padded_width(shape), sizeof(float) + sizeof(int8_t)),
                     saturating_multiply(padded_groups(shape), sizeof(float) + sizeof(int32_t)));
  return saturating_add(before_experts(shape, n_workers),
                        saturating_multiply(expert_rows(shape), per_row));
}

CpuScratch::CpuScratch(const ScratchShape &shape, uint32_t n_workers)
    : worker_bytes_(worker_bytes(shape)),
      partial_capacity_(partials(shape, n_workers)),
      numbers_at_(saturating_multiply(worker_bytes_, n_workers)),
      partials_at_(saturating_add(numbers_at_, attention_bytes(shape, n_workers).numbers)),
      rows_at_(saturating_add(partials_at_, attention_bytes(shape, n_workers).partials)),
      experts_at_(before_experts(shape, n_workers)),
      n_expert_rows_(expert_rows(shape)),
      expert_stride_(padded_width(shape)),
      group_stride_(padded_groups(shape)),
      buffer_(needed_bytes(shape, n_workers), "scratch of the CPU backend") {}

float *CpuScratch::worker_floats(uint32_t worker) noexcept {
  return reinterpret_cast<float *>(buffer_.data() + worker * worker_bytes_);
}

float *CpuScratch::attention_numbers() noexcept {
  return reinterpret_cast<float *>(buffer_.data() + numbers_at_);
}

float *CpuScratch::attention_partials() noexcept {
  return reinterpret_cast<float *>(buffer_.data() + partials_at_);
}

AttentionRows *CpuScratch::attention_rows() noexcept {
  return reinterpret_cast<AttentionRows *>(buffer_.data() + rows_at_);
}

float *CpuScratch::intermediate_rows() noexcept {
  return reinterpret_cast<float *>(buffer_.data() + experts_at_);
}

QuantisedRows CpuScratch::quantised_rows(uint32_t group) noexcept {
  QuantisedRows rows;
  rows.q = reinterpret_cast<int8_t *>(intermediate_rows() + n_expert_rows_ * expert_stride_);
  rows.scales = reinterpret_cast<float *>(rows.q + n_expert_rows_ * expert_stride_);
  rows.sums = reinterpret_cast<int32_t *>(rows.scales + n_expert_rows_ * group_stride_);
  rows.q_stride = expert_stride_;
  rows.group_stride = group_stride_;
  rows.group = group;
  return rows;
}

}  // namespace colibri::cpu
