// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/sliced_tasks.h"

#include <algorithm>
#include <vector>

namespace colibri {
namespace {

constexpr size_t kItemsPerThread = 4;

}  // namespace

size_t slice_items(uint64_t item_bytes, uint32_t n_threads) noexcept {
  return std::max<size_t>(kSliceBytes / item_bytes, n_threads * kItemsPerThread);
}

void run_slices(ThreadPool &threads, size_t n_items, size_t n_slice,
                FunctionRef<Status(size_t item, size_t place, uint32_t worker)> make,
                FunctionRef<void(size_t first, size_t n)> emit) {
  std::vector<Status> outcomes(std::min(n_slice, n_items));
  for (size_t first = 0; first < n_items; first += n_slice) {
    const size_t n = std::min(n_slice, n_items - first);
    threads.parallel_for(n, [&](size_t place, uint32_t worker) {
      outcomes[place] = make(first + place, place, worker);
    });
    for (size_t place = 0; place < n; ++place) throw_if_failed(outcomes[place]);
    emit(first, n);
  }
}

}  // namespace colibri
