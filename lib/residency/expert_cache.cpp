// SPDX-License-Identifier: Apache-2.0
//
// One mutex guards everything but the bytes in slots. An entry is absent, loading (its bytes are
// reserved, its read is queued or running) or ready. A visit hangs a waiter on every entry that is
// not ready when it begins; whoever has that entry read, the outcome is delivered to all its
// waiters, so two visits share one read.
//
// No deadlock. Bytes are held against eviction only by (1) loads, which end by themselves because
// loader threads wait for no visit, and (2) pins of experts that were delivered to a visit and not
// released. A visit with delivered experts never waits: next() returns them at once, and release()
// follows without waiting for others. A visit that waits in next() therefore holds nothing but
// loads. So when every engine waits and no load is left, nothing is pinned and any expert fits,
// since the budget is at least the largest one. Visits are served in the order of begin(), and no
// read of a later visit starts before all reads of an earlier one have: nobody starves, because
// what the first one waits for can only become less.
//
// Each distinct expert is read at most once per visit: an expert that is delivered stays pinned
// until released.

#include "lib/residency/expert_cache.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cinttypes>
#include <condition_variable>
#include <mutex>

#include "lib/residency/expert_layout.h"
#include "lib/residency/expert_loader.h"
#include "lib/residency/expert_slots.h"

namespace colibri {
namespace {

constexpr uint32_t kNoEntry = UINT32_MAX;

}  // namespace

// Arrays have room for every expert of a layer, so that a visit allocates nothing.
struct ExpertCache::Visit::State {
  // Interest in an entry that was not ready when the visit began.
  struct Waiter {
    State *visit = nullptr;
    Waiter *next = nullptr;  // of the same entry
    uint32_t entry = kNoEntry;
    bool is_delivered = false;
  };

  State(Impl &owner, uint32_t capacity)
      : cache(owner), waiters(capacity), ready(capacity), ready_entries(capacity) {}

  Impl &cache;
  std::vector<Waiter> waiters;  // [n_waiters], in the order of begin()
  std::vector<Ready> ready;     // [n_ready], in the order of delivery
  // Entry that ready[i] pins; kNoEntry for a failure, which pins nothing.
  std::vector<uint32_t> ready_entries;
  uint32_t n_experts = 0;  // of this visit
  uint32_t n_waiters = 0;
  uint32_t n_ready = 0;
  uint32_t n_handed_out = 0;
  uint32_t n_released = 0;
  uint32_t next_read = 0;  // waiters before it need no read to be started
  bool is_queued = false;  // in the queue of visits that want reads
  State *next_queued = nullptr;
  std::condition_variable arrived;
};

struct ExpertCache::Impl {
  using VisitState = Visit::State;
  using Waiter = VisitState::Waiter;
  enum class EntryState : uint8_t { kAbsent, kLoading, kReady };
  struct Entry {
    const ExpertSource *source = nullptr;
    ExpertId id;
    uint64_t bytes = 0;
    uint32_t slot = ExpertSlots::kNoSlot;
    EntryState state = EntryState::kAbsent;
    Waiter *waiters = nullptr;
  };

  Impl(const TensorIndex &index, const ModelSources &sources, const ExpertCacheOptions &options);

  // All below need the mutex.
  void begin(VisitState &visit, uint32_t layer, std::span<const int32_t> experts) noexcept;
  void abandon(VisitState &visit) noexcept;
  void release_until(VisitState &visit, uint32_t end) noexcept;
  void deliver(VisitState &visit, uint32_t entry, const Status &status) noexcept;
  void start_reads() noexcept;
  void start_read(uint32_t entry) noexcept;
  void finish_read(uint32_t entry, const Status &status) noexcept;
  void evict(ExpertId id) noexcept;
  void trim() noexcept;
  uint32_t find_entry(uint32_t layer, int32_t expert) const noexcept;
  uint32_t count_slots(uint64_t budget_bytes) const noexcept;
  void require_budget(uint64_t budget_bytes) const;

  std::vector<Entry> entries;           // of layers that have experts, layer by layer
  std::vector<uint32_t> first_entries;  // per layer and one more: its first index in entries
  std::vector<uint64_t> sums_of_least;  // [i]: bytes of the i + 1 smallest experts
  uint64_t largest_bytes = 0;
  uint32_t most_experts = 0;  // of a layer
  mutable std::mutex mutex;
  PlacementPolicy policy;
  ExpertSlots slots;
  VisitState *first_queued = nullptr;
  VisitState *last_queued = nullptr;
  ExpertCacheStats stats;
  std::unique_ptr<ExpertLoader> loader;  // last: its threads use the members above
};

namespace {

uint32_t most_experts_of_a_layer(const ModelSources &sources) noexcept {
  size_t most = 0;
  for (const LayerSources &layer : sources.layers) most = std::max(most, layer.experts.size());
  return static_cast<uint32_t>(most);
}

std::vector<uint64_t> sum_layers(const ModelSources &sources) {
  std::vector<uint64_t> sums;
  for (const LayerSources &layer : sources.layers) {
    uint64_t sum = 0;
    for (const ExpertSource &expert : layer.experts) sum += packed_bytes(expert);
    sums.push_back(sum);
  }
  return sums;
}

uint32_t count_experts(const ModelSources &sources) noexcept {
  size_t n = 0;
  for (const LayerSources &layer : sources.layers) n += layer.experts.size();
  return static_cast<uint32_t>(n);
}

bool are_alike(const ModelSources &sources) noexcept {
  const uint64_t n_experts = count_experts(sources);
  return ExpertCache::all_packed_experts_bytes(sources) ==
         n_experts * ExpertCache::largest_packed_expert_bytes(sources);
}

}  // namespace

ExpertCache::Impl::Impl(const TensorIndex &index, const ModelSources &sources,
                        const ExpertCacheOptions &options)
    : largest_bytes(largest_packed_expert_bytes(sources)),
      most_experts(most_experts_of_a_layer(sources)),
      policy(sum_layers(sources), most_experts, options.budget_bytes),
      slots(largest_bytes, count_experts(sources), are_alike(sources)) {
  entries.reserve(count_experts(sources));
  for (uint32_t layer = 0; layer < sources.layers.size(); ++layer) {
    first_entries.push_back(static_cast<uint32_t>(entries.size()));
    for (const ExpertSource &expert : sources.layers[layer].experts) {
      Entry entry;
      entry.source = &expert;
      entry.id = ExpertId{layer, static_cast<uint32_t>(entries.size()) - first_entries.back()};
      entry.bytes = packed_bytes(expert);
      entries.push_back(entry);
      sums_of_least.push_back(entry.bytes);
    }
  }
  first_entries.push_back(static_cast<uint32_t>(entries.size()));
  std::sort(sums_of_least.begin(), sums_of_least.end());
  for (size_t i = 1; i < sums_of_least.size(); ++i) sums_of_least[i] += sums_of_least[i - 1];

  require_budget(options.budget_bytes);
  stats.budget_bytes = options.budget_bytes;
  slots.reserve(count_slots(options.budget_bytes));
  if (entries.empty()) return;
  const uint32_t n_threads = std::max(options.n_loader_threads, 1u);
  loader = std::make_unique<ExpertLoader>(
      index, ExpertCache::staging_bytes(sources, 1), n_threads,
      static_cast<uint32_t>(entries.size()),
      [this](uint32_t entry, const Status &status, uint64_t read_bytes) {
        const std::lock_guard<std::mutex> lock(mutex);
        stats.read_bytes += read_bytes;
        finish_read(entry, status);
      });
}

void ExpertCache::Impl::require_budget(uint64_t budget_bytes) const {
  if (budget_bytes >= largest_bytes) return;
  throw_error(StatusCode::kBudget,
              "expert cache of %" PRIu64 " bytes: the largest expert takes %" PRIu64
              "; give it at least that",
              budget_bytes, largest_bytes);
}

// Most experts that can be resident at once within a budget.
uint32_t ExpertCache::Impl::count_slots(uint64_t budget_bytes) const noexcept {
  const auto end = std::upper_bound(sums_of_least.begin(), sums_of_least.end(), budget_bytes);
  return static_cast<uint32_t>(end - sums_of_least.begin());
}

uint32_t ExpertCache::Impl::find_entry(uint32_t layer, int32_t expert) const noexcept {
  if (expert < 0 || size_t{layer} + 1 >= first_entries.size()) return kNoEntry;
  const uint32_t index = first_entries[layer] + static_cast<uint32_t>(expert);
  return index < first_entries[layer + 1] ? index : kNoEntry;
}

void ExpertCache::Impl::begin(VisitState &visit, uint32_t layer,
                              std::span<const int32_t> experts) noexcept {
  assert(experts.size() <= visit.ready.size());
  visit.n_experts = static_cast<uint32_t>(experts.size());
  for (const int32_t expert : experts) {
    const uint32_t index = find_entry(layer, expert);
    if (index == kNoEntry) {
      deliver(visit, kNoEntry,
              make_status(StatusCode::kInternal, "layer %u has no expert %d", layer, expert));
      visit.ready[visit.n_ready - 1].expert = expert;
      continue;
    }
    if (entries[index].state == EntryState::kReady) {
      ++stats.hits;
      deliver(visit, index, Status());
      continue;
    }
    ++stats.misses;
    Waiter &waiter = visit.waiters[visit.n_waiters++];
    waiter = Waiter{&visit, entries[index].waiters, index, false};
    entries[index].waiters = &waiter;
  }
  if (visit.n_waiters == 0) return;
  visit.is_queued = true;
  visit.next_queued = nullptr;
  (last_queued == nullptr ? first_queued : last_queued->next_queued) = &visit;
  last_queued = &visit;
}

// Appends an outcome to what next() hands out. A ready expert is pinned for the visit.
void ExpertCache::Impl::deliver(VisitState &visit, uint32_t index, const Status &status) noexcept {
  Visit::Ready &ready = visit.ready[visit.n_ready];
  ready.status = status;
  ready.weights = ExpertView();
  ready.expert = index == kNoEntry ? -1 : static_cast<int32_t>(entries[index].id.expert);
  visit.ready_entries[visit.n_ready] = status.is_ok() ? index : kNoEntry;
  if (status.is_ok()) {
    ready.weights = view_expert(*entries[index].source, slots.address(entries[index].slot));
    policy.pin(entries[index].id);
  }
  ++visit.n_ready;
}

void ExpertCache::Impl::start_reads() noexcept {
  while (first_queued != nullptr) {
    VisitState &visit = *first_queued;
    for (; visit.next_read < visit.n_waiters; ++visit.next_read) {
      const Waiter &waiter = visit.waiters[visit.next_read];
      if (waiter.is_delivered || entries[waiter.entry].state != EntryState::kAbsent) continue;
      if (!policy.can_fit(entries[waiter.entry].bytes)) return;
      start_read(waiter.entry);
    }
    first_queued = visit.next_queued;
    if (first_queued == nullptr) last_queued = nullptr;
    visit.is_queued = false;
  }
}

// Reserves the bytes, evicting what has to go, and queues the read. The expert must fit.
void ExpertCache::Impl::start_read(uint32_t index) noexcept {
  Entry &entry = entries[index];
  ExpertId victim;
  while (policy.used_bytes() + entry.bytes > policy.budget_bytes() &&
         policy.choose_victim(entry.id.layer, &victim)) {
    evict(victim);
  }
  entry.slot = slots.take(entry.bytes);
  assert(entry.slot != ExpertSlots::kNoSlot);
  slots.release_free_pages();
  policy.insert(entry.id, entry.bytes);
  policy.pin(entry.id);  // until the read ends
  entry.state = EntryState::kLoading;
  loader->submit(ExpertLoader::Job{
      entry.source, std::span<uint8_t>(slots.address(entry.slot), slots.slot_bytes()), index});
}

void ExpertCache::Impl::finish_read(uint32_t index, const Status &status) noexcept {
  Entry &entry = entries[index];
  if (status.is_ok()) {
    ++stats.reads;
    ++stats.resident_experts;
    entry.state = EntryState::kReady;
  } else {
    ++stats.read_failures;
    entry.state = EntryState::kAbsent;
  }
  for (Waiter *waiter = entry.waiters; waiter != nullptr; waiter = waiter->next) {
    waiter->is_delivered = true;
    deliver(*waiter->visit, index, status);
    waiter->visit->arrived.notify_one();
  }
  entry.waiters = nullptr;
  policy.unpin(entry.id);
  if (!status.is_ok()) {
    policy.remove(entry.id);
    slots.give_back(entry.slot);
    entry.slot = ExpertSlots::kNoSlot;
  }
  trim();
  start_reads();
}

void ExpertCache::Impl::evict(ExpertId id) noexcept {
  Entry &entry = entries[first_entries[id.layer] + id.expert];
  assert(entry.state == EntryState::kReady);
  policy.remove(id);
  slots.give_back(entry.slot);
  entry.slot = ExpertSlots::kNoSlot;
  entry.state = EntryState::kAbsent;
  ++stats.evictions;
  --stats.resident_experts;
}

// Brings use below a budget that was lowered, as far as pins allow, and gives pages of free slots
// back.
void ExpertCache::Impl::trim() noexcept {
  ExpertId victim;
  while (policy.used_bytes() > policy.budget_bytes() &&
         policy.choose_victim(PlacementPolicy::kNoLayer, &victim)) {
    evict(victim);
  }
  slots.release_free_pages();
}

void ExpertCache::Impl::release_until(VisitState &visit, uint32_t end) noexcept {
  for (; visit.n_released < end; ++visit.n_released) {
    const uint32_t index = visit.ready_entries[visit.n_released];
    if (index != kNoEntry) policy.unpin(entries[index].id);
  }
}

// Forgets a visit: its pins go, its waiters are taken off; reads that were begun for it end as
// usual.
void ExpertCache::Impl::abandon(VisitState &visit) noexcept {
  for (uint32_t i = 0; i < visit.n_waiters; ++i) {
    if (visit.waiters[i].is_delivered) continue;
    Waiter **link = &entries[visit.waiters[i].entry].waiters;
    while (*link != &visit.waiters[i]) link = &(*link)->next;
    *link = visit.waiters[i].next;
  }
  if (visit.is_queued) {
    VisitState *before = nullptr;
    for (VisitState *other = first_queued; other != &visit; other = other->next_queued) {
      before = other;
    }
    (before == nullptr ? first_queued : before->next_queued) = visit.next_queued;
    if (last_queued == &visit) last_queued = before;
    visit.is_queued = false;
  }
  release_until(visit, visit.n_ready);
  visit.n_experts = visit.n_waiters = visit.n_ready = 0;
  visit.n_handed_out = visit.n_released = visit.next_read = 0;
}

ExpertCache::Visit::Visit(ExpertCache &cache)
    : state_(std::make_unique<State>(*cache.impl_, cache.impl_->most_experts)) {}

ExpertCache::Visit::~Visit() {
  Impl &cache = state_->cache;
  const std::lock_guard<std::mutex> lock(cache.mutex);
  cache.abandon(*state_);
  cache.trim();
  cache.start_reads();
}

void ExpertCache::Visit::begin(uint32_t layer, std::span<const int32_t> experts) noexcept {
  Impl &cache = state_->cache;
  const std::lock_guard<std::mutex> lock(cache.mutex);
  cache.abandon(*state_);
  cache.trim();
  cache.begin(*state_, layer, experts);
  cache.start_reads();
}

std::span<const ExpertCache::Visit::Ready> ExpertCache::Visit::next() noexcept {
  State &visit = *state_;
  std::unique_lock<std::mutex> lock(visit.cache.mutex);
  if (visit.n_handed_out == visit.n_ready && visit.n_ready < visit.n_experts) {
    const auto start = std::chrono::steady_clock::now();
    visit.arrived.wait(lock, [&visit] { return visit.n_handed_out < visit.n_ready; });
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    visit.cache.stats.wait_seconds += waited.count();
  }
  const uint32_t first = visit.n_handed_out;
  visit.n_handed_out = visit.n_ready;
  return std::span<const Ready>(visit.ready.data() + first, visit.n_ready - first);
}

void ExpertCache::Visit::release() noexcept {
  Impl &cache = state_->cache;
  const std::lock_guard<std::mutex> lock(cache.mutex);
  cache.release_until(*state_, state_->n_handed_out);
  cache.trim();
  cache.start_reads();
}

ExpertCache::ExpertCache(const TensorIndex &index, const ModelSources &sources,
                         const ExpertCacheOptions &options)
    : impl_(std::make_unique<Impl>(index, sources, options)) {}

ExpertCache::ExpertCache(const Snapshot &snapshot, const ExpertCacheOptions &options)
    : ExpertCache(snapshot.index(), snapshot.sources(), options) {}

ExpertCache::~ExpertCache() = default;

ExpertCacheStats ExpertCache::stats() const noexcept {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  ExpertCacheStats stats = impl_->stats;
  stats.resident_bytes = impl_->policy.used_bytes();
  stats.largest_queue_depth = impl_->loader == nullptr ? 0 : impl_->loader->largest_depth();
  return stats;
}

void ExpertCache::set_budget(uint64_t budget_bytes) {
  impl_->require_budget(budget_bytes);
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->slots.reserve(impl_->count_slots(budget_bytes));
  impl_->policy.set_budget(budget_bytes);
  impl_->stats.budget_bytes = budget_bytes;
  impl_->trim();
  impl_->start_reads();
}

bool ExpertCache::is_resident(ExpertId id) const noexcept {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const uint32_t index = impl_->find_entry(id.layer, static_cast<int32_t>(id.expert));
  return index != kNoEntry && impl_->entries[index].state == Impl::EntryState::kReady;
}

}  // namespace colibri
