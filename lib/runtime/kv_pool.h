// SPDX-License-Identifier: Apache-2.0
//
// KvPool: the memory of all KV slots, taken once. KvSlot: one sequence's positions and tokens.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/model/kv_layout.h"

namespace colibri {

// What a saved blob must agree with, whatever else it holds.
struct KvFingerprint {
  uint64_t snapshot_identity = 0;
  uint64_t config_hash = 0;        // over the layout's numbers
  float latent_norm_eps = 0;
  uint32_t activation_mode = 0;
};

class KvSlot {
 public:
  uint32_t length() const noexcept { return static_cast<uint32_t>(tokens_.size()); }
  uint32_t capacity() const noexcept { return layout_->capacity(); }
  const std::vector<int32_t> &tokens() const noexcept { return tokens_; }
  float *data() noexcept { return data_; }

  // Records that positions [length, length + tokens.size()) have been computed. Allocates nothing.
  void append(std::span<const int32_t> tokens) noexcept;
  // length <= length().
  void truncate(uint32_t length) noexcept;
  // Makes this slot a copy of the other's first `length` positions.
  void copy_prefix_from(const KvSlot &other, uint32_t length) noexcept;

  uint64_t blob_bytes() const noexcept;
  void save(const KvFingerprint &fingerprint, uint8_t *blob) const noexcept;
  // On failure (kMismatch, kFormat, kContext) the slot is empty.
  Status restore(const KvFingerprint &fingerprint, std::span<const uint8_t> blob) noexcept;

 private:
  friend class KvPool;
  const KvLayout *layout_ = nullptr;
  float *data_ = nullptr;
  std::vector<int32_t> tokens_;  // reserved to capacity
  bool is_taken_ = false;
};

class KvPool {
 public:
  // The layout must outlive the pool. Throws Error(kMemory).
  KvPool(const KvLayout &layout, uint32_t n_slots);

  // An empty free slot, or nullptr. Thread-safe.
  KvSlot *take() noexcept;
  // Thread-safe.
  void give_back(KvSlot *slot) noexcept;
  uint32_t n_slots() const noexcept { return static_cast<uint32_t>(slots_.size()); }
  uint32_t n_taken() const noexcept;

 private:
  Buffer memory_;
  std::vector<KvSlot> slots_;
  mutable std::mutex mutex_;
  uint32_t n_taken_ = 0;
};

}  // namespace colibri
