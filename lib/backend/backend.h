// SPDX-License-Identifier: Apache-2.0
//
// Backend: what a device must offer to run a model. Operations are synchronous, noexcept, allocate
// nothing and cannot fail by contract: every size was planned and every argument checked before.
// They may run side by side from several threads if each has its own Scratch.

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "lib/backend/op_args.h"

namespace colibri {

// Largest sizes that will occur, for scratch memory.
struct ScratchShape {
  uint32_t max_rows = 0;      // R
  uint32_t n_heads = 0;       // H
  uint32_t key_width = 0;     // of attention, the widest of all layers
  uint32_t value_width = 0;   // the same
  uint32_t expert_width = 0;  // F
  uint32_t n_experts_per_token = 0;
  uint32_t n_experts = 0;  // E
};

class Backend {
 public:
  // Memory that operations of one engine use meanwhile; one call at a time.
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };

  virtual ~Backend() = default;

  // Name of the kernel set in use: "ref", "avx2", "avx512".
  virtual const char *kernel_set_name() const noexcept = 0;
  virtual uint32_t n_threads() const noexcept = 0;

  virtual uint64_t scratch_bytes(const ScratchShape &shape) const noexcept = 0;
  // Throws Error(kMemory).
  virtual std::unique_ptr<Scratch> make_scratch(const ScratchShape &shape) = 0;

  virtual void embed(const EmbedArgs &args) noexcept = 0;
  virtual void rms_norm(const NormArgs &args) noexcept = 0;
  virtual void layer_norm(const NormArgs &args) noexcept = 0;
  virtual void quantise(const QuantiseArgs &args) noexcept = 0;
  // All tasks as one parallel region; they may share inputs but not outputs.
  virtual void linear(std::span<const LinearTask> tasks, Scratch &scratch) noexcept = 0;
  virtual void rope(const RopeArgs &args) noexcept = 0;
  // Rounds and copies rows into slots.
  virtual void store(const StoreArgs &args) noexcept = 0;
  virtual void attention(const AttentionArgs &args, Scratch &scratch) noexcept = 0;
  virtual void index_scores(const IndexScoresArgs &args, Scratch &scratch) noexcept = 0;
  virtual void select(const SelectArgs &args, Scratch &scratch) noexcept = 0;
  virtual void route(const RouteArgs &args, Scratch &scratch) noexcept = 0;
  virtual void experts(const ExpertsArgs &args, Scratch &scratch) noexcept = 0;
  virtual void combine(const CombineArgs &args) noexcept = 0;
  virtual void silu(const SiluArgs &args) noexcept = 0;
  virtual void add(const AddArgs &args) noexcept = 0;
};

}  // namespace colibri
