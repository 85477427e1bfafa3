// SPDX-License-Identifier: Apache-2.0
//
// Lists every dense tensor with its target, gives each a place in one buffer, and fills the places
// in parallel.

#include "lib/model/dense_weights.h"

#include <algorithm>

#include "lib/model/dense_items.h"
#include "lib/model/dense_loader.h"

namespace colibri {

uint64_t DenseWeights::bytes(const Snapshot &snapshot) {
  DenseWeights unbound;
  return DenseList(snapshot, &unbound).total_bytes();
}

void DenseWeights::load(const Snapshot &snapshot, ThreadPool &threads,
                        const std::function<bool(uint64_t, uint64_t)> &progress) {
  const DenseList list(snapshot, this);
  memory_ = Buffer(list.total_bytes(), "dense weights");
  memory_.ask_for_huge_pages();  // all of it is filled below
  list.bind(memory_.data(), this);
  const std::vector<LoadUnit> units = cut_into_units(list.items());
  const UnitLoader loader(snapshot, memory_.data());
  std::vector<UnitLoader::Staging> staging(threads.n_threads());

  // A round has several units per thread: enough to keep threads busy, short enough to hear a
  // cancel soon.
  const size_t round = size_t{threads.n_threads()} * 4;
  std::vector<Status> outcomes(round);
  uint64_t done_bytes = 0;
  for (size_t first = 0; first < units.size(); first += round) {
    const size_t n = std::min(round, units.size() - first);
    threads.parallel_for(n, [&](size_t task, uint32_t worker) {
      try {
        loader.load(units[first + task], &staging[worker]);
        outcomes[task] = Status();
      } catch (const Error &error) {
        outcomes[task] = error.status();
      } catch (...) {
        outcomes[task] = make_status(StatusCode::kMemory, "no memory for loading %s",
                                     units[first + task].item->name->c_str());
      }
    });
    for (size_t i = 0; i < n; ++i) {
      throw_if_failed(outcomes[i]);
      done_bytes += units[first + i].bytes;
    }
    const bool is_last = first + n == units.size();
    const uint64_t reported =
        is_last ? list.total_bytes() : std::min(done_bytes, list.total_bytes());
    if (progress && !progress(reported, list.total_bytes())) {
      throw_error(StatusCode::kCancelled,
                  "the host stopped opening the model at %llu of %llu bytes",
                  static_cast<unsigned long long>(reported),
                  static_cast<unsigned long long>(list.total_bytes()));
    }
  }
}

}  // namespace colibri
