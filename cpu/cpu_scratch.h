// SPDX-License-Identifier: Apache-2.0
//
// CpuScratch: the memory that operations of one engine use meanwhile. One part per worker
// (attention, router) and the intermediate rows of the experts, which all workers share: row r * K
// + rank belongs to that pair.

#pragma once

#include "lib/backend/backend.h"
#include "lib/base/buffer.h"

namespace colibri::cpu {

class CpuScratch final : public Backend::Scratch {
 public:
  static uint64_t needed_bytes(const ScratchShape &shape, uint32_t n_workers) noexcept;

  // Throws Error(kMemory).
  CpuScratch(const ScratchShape &shape, uint32_t n_workers);

  // 64-byte aligned; enough for attention and for the router.
  float *worker_floats(uint32_t worker) noexcept;

  // [R * K][expert_stride()], as the next three.
  float *gate_rows() noexcept;
  float *up_rows() noexcept;
  size_t expert_stride() const noexcept { return expert_stride_; }
  // The same rows quantised; `group` is set by the caller.
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
