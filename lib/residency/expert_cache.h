// SPDX-License-Identifier: Apache-2.0
//
// ExpertCache: which routed experts are in RAM, and how the others get there. An expert (gate, up,
// down with their scales) moves as one unit into one page-aligned slot; bytes in slots, loads in
// flight included, never exceed the budget. Reads run on loader threads of the cache, all experts a
// layer misses at once, while the caller computes those that are there. Thread-safe; several
// engines may use one cache.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/backend/op_args.h"
#include "lib/base/status.h"
#include "lib/residency/placement.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

struct ExpertCacheOptions {
  uint64_t budget_bytes = 0;      // for packed experts alone
  uint32_t n_loader_threads = 4;  // reads in flight at once; 0 counts as 1
};

struct ExpertCacheStats {
  uint64_t hits = 0;        // requests for an expert that was resident
  uint64_t misses = 0;      // requests that had to read or wait for a read in flight
  uint64_t reads = 0;       // experts read
  uint64_t read_bytes = 0;  // from files
  uint64_t read_failures = 0;
  uint64_t evictions = 0;
  uint64_t resident_experts = 0;  // read and in memory
  uint64_t resident_bytes = 0;    // loads in flight included
  uint64_t budget_bytes = 0;
  uint64_t largest_queue_depth = 0;  // reads in flight at once, largest seen
  double wait_seconds = 0;           // callers spent waiting in next()
};

class ExpertCache {
 public:
  // Packed bytes of one expert, of the largest, and of all: for the planner.
  static uint64_t packed_expert_bytes(const ExpertSource &source) noexcept;
  static uint64_t largest_packed_expert_bytes(const ModelSources &sources) noexcept;
  static uint64_t all_packed_experts_bytes(const ModelSources &sources) noexcept;
  // Read buffers of the loader threads; 0 if all experts are packed.
  static uint64_t staging_bytes(const ModelSources &sources, uint32_t n_loader_threads) noexcept;

  // The snapshot must outlive the cache. Throws Error: kMemory, kBudget (below the largest expert:
  // the message has the least workable number).
  ExpertCache(const Snapshot &snapshot, const ExpertCacheOptions &options);
  // The same for sources that are not in a folder; both must outlive the cache.
  ExpertCache(const TensorIndex &index, const ModelSources &sources,
              const ExpertCacheOptions &options);
  // Joins the loader threads. All Visits must have been destroyed.
  ~ExpertCache();
  ExpertCache(const ExpertCache &) = delete;
  ExpertCache &operator=(const ExpertCache &) = delete;

  // One layer's need in one step. Made once per engine and reused; not thread-safe itself. An
  // engine must not wait for another engine between begin() and the last release(): others may wait
  // for what it holds.
  class Visit {
   public:
    explicit Visit(ExpertCache &cache);  // throws std::bad_alloc
    // Gives back everything; a visit in progress is abandoned.
    ~Visit();
    Visit(const Visit &) = delete;
    Visit &operator=(const Visit &) = delete;

    struct Ready {
      int32_t expert = -1;
      ExpertView weights;  // valid until release()
      Status status;       // failure: the expert could not be read, weights are empty
    };

    // Declares the distinct expert ids that layer `layer` needs now; resident ones are pinned,
    // reads of the others are queued as far as the budget allows. A previous visit that was not
    // finished is abandoned. An id that the layer does not have is handed out with kInternal.
    void begin(uint32_t layer, std::span<const int32_t> experts) noexcept;
    // Hands out experts that are ready and were not handed out in this visit, resident ones first.
    // Waits until at least one is ready; an empty result means that all have been handed out. A
    // failed read is handed out once with its status; other experts go on.
    std::span<const Ready> next() noexcept;
    // Gives back everything that the last next() handed out, so that it may be evicted. Reads that
    // waited for room go on. Must be called after each non-empty next().
    void release() noexcept;

   private:
    friend class ExpertCache;
    struct State;
    std::unique_ptr<State> state_;
  };

  ExpertCacheStats stats() const noexcept;
  // Lowers or raises the budget; evicts at once what is not in use. Throws Error: kBudget (below
  // the largest expert), kMemory; the old budget then stays.
  void set_budget(uint64_t budget_bytes);
  bool is_resident(ExpertId id) const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace colibri
