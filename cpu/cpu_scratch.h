// SPDX-License-Identifier: Apache-2.0
//
// CpuScratch: the memory that operations of one engine use meanwhile. One part per worker
// (attention, router, block of an expert) and what all workers share: the intermediate rows of the
// experts, of which row r * K + rank belongs to that pair, and the state of an attention.

#pragma once

#include "lib/backend/backend.h"
#include "lib/base/buffer.h"

namespace colibri::cpu {

// Consecutive rows of a batch that attend together, and the spans that any of them sees.
struct AttentionRows {
  uint32_t first_row, n_rows;
  uint32_t first_span, end_span;
};

class CpuScratch final : public Backend::Scratch {
 public:
  static uint64_t needed_bytes(const ScratchShape &shape, uint32_t n_workers) noexcept;

  // Throws Error(kMemory).
  CpuScratch(const ScratchShape &shape, uint32_t n_workers);

  // Results of an expert's products that a worker holds at once: 64 KiB stay in the second-level
  // cache of every server, and more gained nothing on Zen 4.
  static constexpr size_t kBlockFloats = 16384;

  // 64-byte aligned; enough for attention and for the router, and at least kBlockFloats.
  float *worker_floats(uint32_t worker) noexcept;

  // Attention: a list of up to R entries; m and l of every (row, head); and, with several workers,
  // the results of a round of spans, value_width + 2 floats for each of partial_capacity() query
  // vectors.
  AttentionRows *attention_rows() noexcept;
  float *attention_numbers() noexcept;
  float *attention_partials() noexcept;
  size_t partial_capacity() const noexcept { return partial_capacity_; }

  // [R * K][expert_stride()]: the intermediate of the experts whose down matrix takes floats.
  float *intermediate_rows() noexcept;
  size_t expert_stride() const noexcept { return expert_stride_; }
  // The same rows quantised, for the others; `group` is set by the caller.
  QuantisedRows quantised_rows(uint32_t group) noexcept;

 private:
  size_t worker_bytes_;
  size_t partial_capacity_;
  size_t numbers_at_, partials_at_, rows_at_, experts_at_;  // bytes
  size_t n_expert_rows_;
  size_t expert_stride_;
  size_t group_stride_;
  Buffer buffer_;
};

}  // namespace colibri::cpu
