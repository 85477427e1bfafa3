// SPDX-License-Identifier: Apache-2.0
//
// The queue is a ring of fixed size under one mutex; a read takes milliseconds, so the lock is
// never contended for a time that counts. A new thread inherits the floating-point mode of its
// maker, which may be the host's; widening scales must be exact, subnormals included, so each
// thread sets its own.

#include "lib/residency/expert_loader.h"

#include <cassert>
#include <utility>

#include "lib/base/float_mode.h"
#include "lib/base/quiet_thread.h"
#include "lib/residency/expert_layout.h"

namespace colibri {
ExpertLoader::ExpertLoader(const TensorIndex &index, uint32_t queue_capacity, Done done)
    : index_(index), done_(std::move(done)), ring_(queue_capacity) {}

// Delegates, so that the destructor stops the threads already running when a later one cannot be
// started.
ExpertLoader::ExpertLoader(const TensorIndex &index, uint64_t staging_bytes, uint32_t n_threads,
                           uint32_t queue_capacity, Done done)
    : ExpertLoader(index, queue_capacity, std::move(done)) {
  staging_.reserve(n_threads);
  threads_.reserve(n_threads);
  for (uint32_t thread = 0; thread < n_threads; ++thread) {
    staging_.emplace_back(staging_bytes, "read buffer of an expert loader");
    const std::span<uint8_t> staging(staging_.back().data(), staging_.back().size());
    threads_.push_back(start_quiet_thread("colibri-read", [this, staging] { run(staging); }));
  }
}

ExpertLoader::~ExpertLoader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  has_work_.notify_all();
  for (std::thread &thread : threads_) thread.join();
}

void ExpertLoader::submit(const Job &job) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    assert(n_waiting_ < ring_.size());
    ring_[(head_ + n_waiting_) % ring_.size()] = job;
    ++n_waiting_;
  }
  has_work_.notify_one();
}

uint32_t ExpertLoader::largest_depth() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return largest_depth_;
}

bool ExpertLoader::take_job(Job *job) noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  has_work_.wait(lock, [this] { return is_stopping_ || n_waiting_ != 0; });
  if (is_stopping_) return false;
  *job = ring_[head_];
  head_ = (head_ + 1) % ring_.size();
  --n_waiting_;
  if (++n_reading_ > largest_depth_) largest_depth_ = n_reading_;
  return true;
}

void ExpertLoader::run(std::span<uint8_t> staging) noexcept {
  const ScopedFloatMode float_mode;
  Job job;
  while (take_job(&job)) {
    uint64_t read_bytes = 0;
    const Status status = load_expert(index_, *job.source, staging, job.slot, &read_bytes);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      --n_reading_;
    }
    done_(job.tag, status, read_bytes);
  }
}

}  // namespace colibri
