// SPDX-License-Identifier: Apache-2.0
//
// Sizes and places of the parts. Layout: worker parts, float rows, int8 rows, scales, sums.
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
size_t old_attention_scratch_floats(size_t key_width, size_t n_heads) noexcept;
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kLeastGroup = 16;
// Query vectors and widened rows are padded to a multiple of that.
constexpr size_t kPaddedQueries = 16;

uint64_t align_up(uint64_t a, uint64_t unit) {
  return saturating_add(a, unit - 1) / unit * unit;
}

uint64_t worker_bytes(const ScratchShape &shape) {
  const uint64_t attention = old_attention_scratch_floats(shape.key_width, shape.n_heads);
  const uint64_t route = route_scratch_floats(shape.n_experts);
  const uint64_t floats = std::max<uint64_t>({attention, route, CpuScratch::kBlockFloats});
  return align_up(saturating_multiply(floats, sizeof(float)), kAlignment);
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
// TEMP
size_t old_attention_scratch_floats(size_t key_width, size_t n_heads) noexcept {
  const size_t padded_heads = (n_heads + kPaddedQueries - 1) / kPaddedQueries * kPaddedQueries;
  return kAttentionBlock * key_width + (kAttentionBlock + 5) * padded_heads;
}

uint64_t CpuScratch::needed_bytes(const ScratchShape &shape, uint32_t n_workers) noexcept {
  const uint64_t per_row =
      saturating_add(saturating_multiply(padded_width(shape), sizeof(float) + sizeof(int8_t)),
                     saturating_multiply(padded_groups(shape), sizeof(float) + sizeof(int32_t)));
  return saturating_add(saturating_multiply(worker_bytes(shape), n_workers),
                        saturating_multiply(expert_rows(shape), per_row));
}

CpuScratch::CpuScratch(const ScratchShape &shape, uint32_t n_workers)
    : worker_bytes_(worker_bytes(shape)),
      n_workers_(n_workers),
      n_expert_rows_(expert_rows(shape)),
      expert_stride_(padded_width(shape)),
      group_stride_(padded_groups(shape)),
      buffer_(needed_bytes(shape, n_workers), "scratch of the CPU backend") {}

float *CpuScratch::worker_floats(uint32_t worker) noexcept {
  return reinterpret_cast<float *>(buffer_.data() + worker * worker_bytes_);
}

float *CpuScratch::intermediate_rows() noexcept {
  return reinterpret_cast<float *>(buffer_.data() + n_workers_ * worker_bytes_);
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
