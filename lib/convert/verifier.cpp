// SPDX-License-Identifier: Apache-2.0
//
// Threads take tensors in the order of the files, each reading and adding up one at a time. Work is
// done in rounds of bounded bytes, as progress is told on the caller's thread between them; a
// tensor that is larger than a round is gone on with in the next one, by the same worker's state.

#include "lib/convert/verifier.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "lib/base/buffer.h"
#include "lib/base/checksum.h"
#include "lib/base/file.h"
#include "lib/base/parallel.h"
#include "lib/snapshot/tensor_index.h"

namespace colibri {
namespace {

constexpr uint64_t kReadBytes = 4ull << 20;
constexpr uint64_t kRoundBytes = 64ull << 20;  // of each worker

// A range of a file and what its bytes add up to.
struct Item {
  std::string name;
  const Reader *reader = nullptr;  // nullptr: cannot be opened
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::optional<uint64_t> checksum;
  bool is_damaged = false;
};

// What one worker is at.
struct Worker {
  Worker() : buffer(kReadBytes, "verification") {}

  void begin(Item *next) noexcept {
    item = next;
    position = 0;
    sum.reset();
    item->is_damaged = item->reader == nullptr;
  }

  // Reads up to `budget` bytes of its item; true once it is through with it.
  bool go_on(uint64_t *budget) noexcept {
    while (!item->is_damaged && position < item->bytes) {
      if (*budget == 0) return false;
      const uint64_t left = std::min(item->bytes - position, *budget);
      const size_t n = static_cast<size_t>(std::min<uint64_t>(buffer.size(), left));
      item->is_damaged = !item->reader->read_at(item->offset + position, buffer.data(), n).is_ok();
      sum.add({buffer.data(), n});
      position += n;
      *budget -= n;
    }
    if (!item->is_damaged) item->is_damaged = item->checksum != sum.value();
    return true;
  }

  Buffer buffer;
  StreamingChecksum sum;
  Item *item = nullptr;
  uint64_t position = 0;
};

class Verification {
 public:
  Verification(const TensorIndex &index, uint32_t n_threads) : pool_(n_threads) {
    workers_.resize(n_threads);
    for (auto &worker : workers_) worker = std::make_unique<Worker>();
    add_tensors(index);
    add_files(index);
    for (const Item &item : items_) total_bytes_ += item.bytes;
  }

  void run(const std::function<bool(uint64_t, uint64_t)> &progress) {
    while (n_done_ < items_.size()) {
      const auto work = [this](size_t worker, uint32_t) { run_round(workers_[worker].get()); };
      pool_.parallel_for(workers_.size(), work);
      if (progress && !progress(done_bytes_, total_bytes_)) {
        throw_error(StatusCode::kCancelled, "verification was stopped after %llu of %llu bytes",
                    static_cast<unsigned long long>(done_bytes_),
                    static_cast<unsigned long long>(total_bytes_));
      }
    }
  }

  VerifyReport report() const {
    VerifyReport report;
    report.n_tensors = n_tensors_;
    report.n_files = items_.size() - n_tensors_;
    report.bytes = total_bytes_;
    for (const Item &item : items_) {
      if (item.is_damaged) report.damaged.push_back(item.name);
    }
    return report;
  }

 private:
  void add_tensors(const TensorIndex &index) {
    struct Place {
      std::string_view name;
      const TensorInfo *info;
    };
    std::vector<Place> places;
    for (const std::string_view name : index.names()) places.push_back({name, index.find(name)});
    std::sort(places.begin(), places.end(), [](const Place &a, const Place &b) {
      return a.info->file != b.info->file ? a.info->file < b.info->file
                                          : a.info->offset < b.info->offset;
    });
    for (const Place &place : places) {
      const Reader *reader = index.files()[place.info->file].reader.get();
      items_.push_back({std::string(place.name), reader, place.info->offset, place.info->bytes,
                        place.info->checksum, false});
    }
    n_tensors_ = items_.size();
  }

  void add_files(const TensorIndex &index) {
    for (const auto &[name, sum] : index.manifest()->files) {
      Item item{name, nullptr, 0, 0, sum, false};
      try {
        side_files_.push_back(open_file(join_path(index.directory(), name)));
        item.reader = side_files_.back().get();
        item.bytes = item.reader->size();
      } catch (const Error &) {
        // Absent, or no file: damaged, as an item without a reader is.
      }
      items_.push_back(std::move(item));
    }
  }

  // A worker's share of one round.
  void run_round(Worker *worker) noexcept {
    uint64_t budget = kRoundBytes;
    while (budget > 0) {
      if (worker->item == nullptr) {
        const size_t next = next_item_.fetch_add(1);
        if (next >= items_.size()) break;
        worker->begin(&items_[next]);
      }
      if (!worker->go_on(&budget)) break;
      done_bytes_ += worker->item->bytes - worker->position;  // what damage made needless to read
      worker->item = nullptr;
      ++n_done_;
    }
    done_bytes_ += kRoundBytes - budget;
  }

  ThreadPool pool_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Reader>> side_files_;
  std::vector<Item> items_;
  size_t n_tensors_ = 0;
  uint64_t total_bytes_ = 0;
  std::atomic<size_t> next_item_ = 0;
  std::atomic<size_t> n_done_ = 0;
  std::atomic<uint64_t> done_bytes_ = 0;
};

}  // namespace

VerifyReport verify_snapshot(const std::string &path, uint32_t n_threads,
                             const std::function<bool(uint64_t, uint64_t)> &progress) {
  const TensorIndex index = TensorIndex::open(path);
  if (!index.is_packed()) {
    throw_error(StatusCode::kUnsupported,
                "'%s' is no packed snapshot and carries no checksums; make one with colibri "
                "convert",
                path.c_str());
  }
  Verification verification(index, n_threads);
  verification.run(progress);
  return verification.report();
}

}  // namespace colibri
