// SPDX-License-Identifier: Apache-2.0
//
// The structs behind the opaque handles of the public headers, and the leases by which children
// hold what belongs to their model.

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "colibri/colibri.h"
#include "lib/capi/handles.h"
#include "lib/capi/open_model.h"
#include "lib/runtime/batch.h"
#include "lib/runtime/scheduler.h"

struct colibri_tokenizer final : colibri::Handle {
  static constexpr colibri::HandleType kType = colibri::HandleType::kTokenizer;
  // Opened on its own.
  explicit colibri_tokenizer(std::unique_ptr<colibri::Tokenizer> opened) noexcept
      : Handle(kType), owned(std::move(opened)), tokenizer(owned.get()), belongs_to_model(false) {}
  // Of a model.
  explicit colibri_tokenizer(const colibri::Tokenizer *of_model) noexcept
      : Handle(kType), tokenizer(of_model), belongs_to_model(true) {}

  const std::unique_ptr<colibri::Tokenizer> owned;
  const colibri::Tokenizer *const tokenizer;
  const bool belongs_to_model;
  mutable std::atomic<uint32_t> n_decoders{0};
};

struct colibri_stream_decoder final : colibri::Handle {
  static constexpr colibri::HandleType kType = colibri::HandleType::kStreamDecoder;
  colibri_stream_decoder(const colibri_tokenizer &tokenizer, bool skips_special)
      : Handle(kType), child(tokenizer.n_decoders), decoder(*tokenizer.tokenizer, skips_special) {}

  colibri::ChildCount child;
  colibri::StreamDecoder decoder;
  std::string text;  // what the last call gave out
};

struct colibri_model final : colibri::Handle {
  static constexpr colibri::HandleType kType = colibri::HandleType::kModel;
  colibri_model(const std::string &path, const colibri::OpenOptions &options);

  colibri::OpenModel open;
  const std::unique_ptr<colibri_tokenizer> tokenizer;  // nullptr if there is none
  std::atomic<uint32_t> n_slots{0};                    // live children
  std::atomic<uint32_t> n_batches{0};
  std::atomic<uint32_t> n_schedulers{0};
  std::atomic<uint32_t> n_engines{0};  // batches and schedulers
  std::atomic<uint64_t> n_passes{0};
  std::atomic<uint64_t> n_rows{0};

  void count_pass(uint32_t n_rows_of_pass) noexcept {
    n_passes += n_rows_of_pass == 0 ? 0 : 1;
    n_rows += n_rows_of_pass;
  }
};

namespace colibri {

// One of the model's n_engines. Throws Error(kCapacity) if none is left.
class EngineLease {
 public:
  explicit EngineLease(colibri_model &model);
  ~EngineLease() { --model_.n_engines; }
  EngineLease(const EngineLease &) = delete;
  EngineLease &operator=(const EngineLease &) = delete;

 private:
  colibri_model &model_;
};

// One slot of the model's pool. Throws Error(kCapacity) if none is free.
class SlotLease {
 public:
  explicit SlotLease(colibri_model &model);
  ~SlotLease() { model_.open.pool().give_back(slot_); }
  SlotLease(const SlotLease &) = delete;
  SlotLease &operator=(const SlotLease &) = delete;

  KvSlot &operator*() const noexcept { return *slot_; }
  KvSlot *operator->() const noexcept { return slot_; }

 private:
  colibri_model &model_;
  KvSlot *slot_;
};

}  // namespace colibri

struct colibri_kv_slot final : colibri::Handle {
  static constexpr colibri::HandleType kType = colibri::HandleType::kKvSlot;
  explicit colibri_kv_slot(colibri_model &of)
      : Handle(kType), model(of), child(of.n_slots), slot(of) {}

  // Throws Error(kBusy) if rows of the slot wait in a batch.
  void require_no_waiting_rows() const;
  // To be called after every change of the length, with the gate held.
  void publish_length() noexcept { length = slot->length(); }

  colibri_model &model;
  colibri::ChildCount child;
  colibri::SlotLease slot;
  std::atomic<uint32_t> length{0};  // readable at any time
};

struct colibri_batch final : colibri::Handle {
  static constexpr colibri::HandleType kType = colibri::HandleType::kBatch;
  explicit colibri_batch(colibri_model &of);

  colibri_model &model;
  colibri::ChildCount child;
  colibri::EngineLease engine;
  colibri::Batch batch;
  std::vector<colibri_kv_slot *> slots;  // whose rows wait here; reserved to max_rows
  std::atomic<uint32_t> n_rows{0};       // readable at any time
};

struct colibri_scheduler final : colibri::Handle {
  static constexpr colibri::HandleType kType = colibri::HandleType::kScheduler;
  colibri_scheduler(colibri_model &of, const colibri::SchedulerOptions &options);

  colibri_model &model;
  colibri::ChildCount child;
  colibri::EngineLease engine;
  colibri::Scheduler scheduler;
  std::atomic<uint64_t> n_rejected{0};  // submissions that were refused before the runtime saw them
};
