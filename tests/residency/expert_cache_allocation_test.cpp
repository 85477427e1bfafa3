// SPDX-License-Identifier: Apache-2.0
//
// Steady visits allocate nothing, loader threads included. The counting operator new serves the
// whole test program.

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "tests/residency/cache_driver.h"
#include "tests/support/catch.h"

namespace {
std::atomic<uint64_t> n_allocations{0};
}  // namespace

// All forms, so that none of them meets the allocator of a sanitizer on the other side.
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
  ++n_allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void *operator new(std::size_t bytes) {
  void *memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void *operator new[](std::size_t bytes) {
  return operator new(bytes);
}
void *operator new[](std::size_t bytes, const std::nothrow_t &) noexcept {
  return operator new(bytes, std::nothrow);
}
void operator delete(void *memory) noexcept {
  std::free(memory);
}
void operator delete(void *memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void *memory, const std::nothrow_t &) noexcept {
  std::free(memory);
}
void operator delete[](void *memory) noexcept {
  std::free(memory);
}
void operator delete[](void *memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void *memory, const std::nothrow_t &) noexcept {
  std::free(memory);
}

TEST_CASE("begin, next, release and the reads behind them allocate nothing") {
  using namespace colibri;
  using namespace colibri::test;
  const Snapshot snapshot = Snapshot::open(std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-int4g64");
  const ModelSources &sources = snapshot.sources();
  const uint64_t largest = ExpertCache::largest_packed_expert_bytes(sources);
  ExpertCache cache(snapshot, cache_options(3 * largest));
  ExpertCache::Visit visit(cache);
  std::vector<int32_t> ids;
  const auto run_token = [&] {
    for (uint32_t layer = 0; layer < sources.layers.size(); ++layer) {
      if (sources.layers[layer].experts.empty()) continue;
      visit.begin(layer, ids);
      while (!visit.next().empty()) visit.release();
    }
  };
  for (const LayerSources &layer : sources.layers) {
    if (!layer.experts.empty() && ids.empty()) {
      for (size_t i = 0; i < layer.experts.size(); ++i) ids.push_back(static_cast<int32_t>(i));
    }
  }
  REQUIRE(ids.size() > 3);
  run_token();
  const uint64_t before = n_allocations;
  REQUIRE(before > 0);
  for (int token = 0; token < 20; ++token) run_token();
  const uint64_t after = n_allocations;
  REQUIRE(after == before);
  REQUIRE(cache.stats().evictions > 20);
}
