// SPDX-License-Identifier: Apache-2.0
//
// CpuScratch: the memory that operations of one engine use meanwhile. One part per worker
// (attention, router, block of an expert) and the intermediate rows of the experts, which all
// workers share: row r * K + rank belongs to that pair.

#pragma once

#include "lib/backend/backend.h"
#include "lib/base/buffer.h"

namespace colibri::cpu {

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

  // [R * K][expert_stride()]: the intermediate of the experts whose down matrix takes floats.
  float *intermediate_rows() noexcept;
  size_t expert_stride() const noexcept { return expert_stride_; }
  // The same rows quantised, for the others; `group` is set by the caller.
  QuantisedRows quantised_rows(uint32_t group) noexcept;

 private:
  size_t worker_bytes_;
  size_t n_workers_;
  size_t n_expert_rows_;
  size_t expert_stride_;
  size_t group_stride_;
  Buffer buffer_;
};

}  // namespace colibri::cpu
