// SPDX-License-Identifier: Apache-2.0
//
// ExpertLoader: threads that read experts from files into slots, in the order of submission. The
// number of threads is the number of reads in flight. Owns the threads, their queue and their
// staging memory; knows nothing of the cache.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/base/status.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

class ExpertLoader {
 public:
  struct Job {
    const ExpertSource *source = nullptr;
    std::span<uint8_t> slot;  // at least packed_bytes(*source), 64-byte aligned
    uint32_t tag = 0;         // given back with the outcome
  };
  // Called once for every job that was begun, from a loader thread that holds no lock. Must not
  // throw. read_bytes counts what came from files.
  using Done = std::function<void(uint32_t tag, const Status &status, uint64_t read_bytes)>;

  // At most queue_capacity jobs may wait at once. staging_bytes: of each thread, for its largest
  // matrix that is not packed; may be 0. Throws Error(kMemory).
  ExpertLoader(const TensorIndex &index, uint64_t staging_bytes, uint32_t n_threads,
               uint32_t queue_capacity, Done done);
  // Finishes reads that were begun, drops those that wait, joins the threads.
  ~ExpertLoader();
  ExpertLoader(const ExpertLoader &) = delete;
  ExpertLoader &operator=(const ExpertLoader &) = delete;

  // Never blocks for long, allocates nothing. May be called from any thread, also from `done`.
  void submit(const Job &job) noexcept;
  // Most reads that ran at the same time so far.
  uint32_t largest_depth() const noexcept;

 private:
  ExpertLoader(const TensorIndex &index, uint32_t queue_capacity, Done done);
  void run(std::span<uint8_t> staging) noexcept;
  // Waits for a job; false when the loader stops.
  bool take_job(Job *job) noexcept;

  const TensorIndex &index_;
  const Done done_;
  mutable std::mutex mutex_;
  std::condition_variable has_work_;
  std::vector<Job> ring_;  // [queue_capacity]
  size_t head_ = 0;
  size_t n_waiting_ = 0;
  uint32_t n_reading_ = 0;
  uint32_t largest_depth_ = 0;
  bool is_stopping_ = false;
  std::vector<Buffer> staging_;  // one per thread
  std::vector<std::thread> threads_;
};

}  // namespace colibri
