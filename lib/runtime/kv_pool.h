// SPDX-License-Identifier: Apache-2.0
//
// KvPool: the memory of all KV slots, taken once. KvSlot: one sequence's positions and tokens.

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/base/status.h"
#include "lib/model/kv_layout.h"

namespace colibri {

// What a saved blob must agree with, beside the numbers of the layout, which the slot knows itself.
struct KvFingerprint {
  uint64_t snapshot_identity = 0;
  uint64_t config_hash = 0;  // over whatever else of the config decides what KV entries mean
  float latent_norm_eps = 0;
  uint32_t activation_mode = 0;
  uint32_t vocabulary_size = INT32_MAX;  // token ids of a blob are below it; part of config_hash
};

class KvSlot {
 public:
  uint32_t length() const noexcept { return static_cast<uint32_t>(tokens_.size()); }
  uint32_t capacity() const noexcept { return layout_->capacity(); }
  const std::vector<int32_t> &tokens() const noexcept { return tokens_; }
  uint8_t *data() noexcept { return data_; }

  // Rows at positions [length(), length() + n_rows) are about to be computed: layers with a window
  // may lose older positions from here on, whether the pass succeeds or not. Allocates nothing.
  void prepare(uint32_t n_rows) noexcept;
  // The longest length, at most `length` (<= length()), from which the slot can really go on: that
  // length itself, or 0 if layers with a window have lost what the next row would see. For models
  // without windows always `length`.
  uint32_t reusable_length(uint32_t length) const noexcept;
  // Records that positions [length, length + tokens.size()) have been computed. Allocates nothing.
  void append(std::span<const int32_t> tokens) noexcept;
  // length == reusable_length(length).
  void truncate(uint32_t length) noexcept;
  // Makes this slot a copy of the other's first `length` positions, which is a reusable length of
  // the other.
  void copy_prefix_from(const KvSlot &other, uint32_t length) noexcept;

  // Size of what save() writes.
  uint64_t blob_bytes() const noexcept;
  void save(const KvFingerprint &fingerprint, uint8_t *blob) const noexcept;
  // On failure the slot is empty. kFormat: the blob is no blob, cut or damaged. kMismatch: the text
  // names what disagrees and both values. kContext: more positions than the slot holds. The
  // capacity of the slot that was saved does not matter.
  Status restore(const KvFingerprint &fingerprint, std::span<const uint8_t> blob) noexcept;

  // Rows of the slot that wait in a batch; while there are any, no other batch can add rows of it,
  // and its owner must not truncate, restore or give it back.
  uint32_t n_waiting_rows() const noexcept { return n_waiting_rows_; }
  bool is_in_batch() const noexcept { return waiting_batch_ != nullptr; }

 private:
  friend class KvPool;
  friend class Batch;
  const KvLayout *layout_ = nullptr;
  uint8_t *data_ = nullptr;
  std::vector<int32_t> tokens_;  // reserved to capacity
  uint32_t first_held_ = 0;      // first position that windowed layers still have
  bool is_taken_ = false;        // guarded by the pool's mutex
  std::atomic<const void *> waiting_batch_ = nullptr;  // the batch that holds rows, if any
  std::atomic<uint32_t> n_waiting_rows_ = 0;
};

class KvPool {
 public:
  // The layout must outlive the pool. n_slots >= 1. Throws Error(kMemory).
  KvPool(const KvLayout &layout, uint32_t n_slots);

  // An empty free slot, or nullptr. Thread-safe.
  KvSlot *take() noexcept;
  // nullptr is allowed. Thread-safe.
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
