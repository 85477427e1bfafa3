// SPDX-License-Identifier: Apache-2.0
//
// Order is what makes a killed conversion safe: bytes are on the disk before the journal says so,
// and everything is before the folder has its name. Headers come last, so that nothing in the
// partial folder can be taken for a snapshot.

#include "lib/convert/packed_writer.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <set>

#include "lib/base/buffer.h"
#include "lib/base/checksum.h"
#include "lib/base/file.h"
#include "lib/base/file_writer.h"
#include "lib/convert/conversion_journal.h"
#include "lib/convert/partial_folder.h"
#include "lib/convert/shard_layout.h"
#include "lib/snapshot/printable.h"
#include "lib/snapshot/tensor_index.h"

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kMaxUnrecordedTime = std::chrono::seconds(2);
constexpr uint64_t kReadBytes = 8ull << 20;

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

// Names, types, layouts and places of all tensors: what headers say when all checksums are 0.
uint64_t hash_tensors(const PackedWriterPlan &plan, const std::vector<ShardPlan> &shards) {
  const std::vector<uint64_t> zeros(plan.tensors.size() + plan.files.size());
  StreamingChecksum hash;
  for (const ShardPlan &shard : shards) {
    hash.add(bytes_of(shard.name));
    hash.add(bytes_of(shard_header(plan, shard, zeros, zeros)));
  }
  return hash.value();
}

uint64_t hash_files(const PackedWriterPlan &plan) {
  StreamingChecksum hash;
  for (const auto &[name, content] : plan.files) {
    const uint64_t length = content.size();
    hash.add(bytes_of(name + '/' + std::to_string(length) + '/'));
    hash.add(content);
  }
  return hash.value();
}

}  // namespace

OutputTensor packed_tensor(const std::string &name, const PackedLayout &layout) {
  const uint64_t bytes = layout.tensor_bytes();
  return {name, "U8", {bytes}, bytes, layout};
}

struct PackedWriter::Impl {
  // Where a tensor stands.
  struct Place {
    size_t shard = 0;
    uint64_t offset = 0;
  };

  Impl(PackedWriterPlan plan_to_take, bool resumes);

  void place_tensors();
  void take_up_folder();
  FileWriter &shard_file(size_t shard);
  void require_current(size_t tensor);
  void record_finished();
  std::vector<size_t> read_back(const std::function<bool(uint64_t, uint64_t)> &progress);
  bool is_intact(size_t tensor, const Reader &reader, Buffer *buffer,
                 const std::function<void(uint64_t)> &advance) const;
  void require_no_damage(const std::vector<size_t> &damaged);
  void write_headers();
  void write_side_files();

  PackedWriterPlan plan;
  std::vector<ShardPlan> shards;
  std::vector<Place> places;  // of each tensor
  ConversionBinding binding;
  uint64_t total_bytes = 0;
  uint64_t done_bytes = 0;
  std::vector<std::optional<uint64_t>> checksums;  // of tensors that are done

  PartialFolder folder;
  std::unique_ptr<ConversionJournal> journal;
  std::vector<std::unique_ptr<FileWriter>> files;  // of shards; opened when needed

  std::vector<FinishedTensor> unrecorded;
  uint64_t unrecorded_bytes = 0;
  Clock::time_point last_record = Clock::now();

  std::optional<size_t> current;  // the tensor that is being appended to
  uint64_t position = 0;          // in it
  StreamingChecksum current_checksum;
  bool is_published = false;
};

PackedWriter::Impl::Impl(PackedWriterPlan plan_to_take, bool resumes)
    : plan(std::move(plan_to_take)),
      shards(cut_into_shards(plan)),
      folder(plan.destination, resumes, sum_file_bytes(plan, shards)) {
  place_tensors();
  binding = {plan.source_identity ^ plan.source_state, plan.options, hash_tensors(plan, shards),
             hash_files(plan)};
  take_up_folder();
}

void PackedWriter::Impl::place_tensors() {
  places.resize(plan.tensors.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    uint64_t offset = shards[i].data_begin;
    for (size_t t = 0; t < shards[i].n_tensors; ++t) {
      const size_t tensor = shards[i].first_tensor + t;
      places[tensor] = {i, offset};
      offset += plan.tensors[tensor].bytes;
    }
    total_bytes += offset - shards[i].data_begin;
  }
}

void PackedWriter::Impl::take_up_folder() {
  std::set<std::string> names;
  for (const ShardPlan &shard : shards) names.insert(shard.name);
  for (const auto &file : plan.files) names.insert(file.first);
  folder.require_only(names);
  journal =
      std::make_unique<ConversionJournal>(folder.journal_path(), binding, plan.tensors.size());
  checksums = journal->checksums();
  for (size_t i = 0; i < checksums.size(); ++i) {
    if (checksums[i]) done_bytes += plan.tensors[i].bytes;
  }
  files.resize(shards.size());
  uint64_t disk_bytes = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    shard_file(i).resize(shards[i].file_bytes);
    disk_bytes += files[i]->disk_bytes();
    files[i].reset();
  }
  // File systems that compress take less than was written, and holes take nothing.
  const uint64_t there = std::max(disk_bytes, done_bytes);
  const uint64_t needed = sum_file_bytes(plan, shards);
  folder.require_space(needed - std::min(needed, there));
  sync_directory(folder.path());
}

FileWriter &PackedWriter::Impl::shard_file(size_t shard) {
  if (!files[shard]) files[shard] = FileWriter::open(join_path(folder.path(), shards[shard].name));
  return *files[shard];
}

void PackedWriter::Impl::require_current(size_t tensor) {
  if (is_published || tensor >= plan.tensors.size() || checksums[tensor] ||
      (current && *current != tensor)) {
    throw_error(StatusCode::kInternal, "tensor %zu of a packed snapshot cannot be written now",
                tensor);
  }
  if (current) return;
  current = tensor;
  position = 0;
  current_checksum.reset();
}

// Files other than the current tensor's are closed: there may be hundreds.
void PackedWriter::Impl::record_finished() {
  last_record = Clock::now();
  if (unrecorded.empty()) return;
  for (const FinishedTensor &entry : unrecorded) {
    const size_t shard = places[entry.tensor].shard;
    if (!files[shard]) continue;
    files[shard]->sync();
    files[shard].reset();
  }
  journal->record(unrecorded);
  unrecorded.clear();
  unrecorded_bytes = 0;
}

// A tensor that cannot be read is as good as one that came back different.
bool PackedWriter::Impl::is_intact(size_t tensor, const Reader &reader, Buffer *buffer,
                                   const std::function<void(uint64_t)> &advance) const {
  StreamingChecksum sum;
  bool is_read = true;
  const uint64_t bytes = plan.tensors[tensor].bytes;
  for (uint64_t at = 0; at < bytes;) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(buffer->size(), bytes - at));
    is_read = is_read && reader.read_at(places[tensor].offset + at, buffer->data(), n).is_ok();
    sum.add({buffer->data(), n});
    at += n;
    advance(n);
  }
  return is_read && sum.value() == *checksums[tensor];
}

std::vector<size_t> PackedWriter::Impl::read_back(
    const std::function<bool(uint64_t, uint64_t)> &progress) {
  Buffer buffer(kReadBytes, "reading back");
  uint64_t n_read = 0;
  const auto advance = [&](uint64_t n) {
    n_read += n;
    if (progress && !progress(n_read, total_bytes)) {
      throw_error(StatusCode::kCancelled,
                  "stopped while reading back; '%s' can be gone on with (resume)",
                  folder.path().c_str());
    }
  };
  std::vector<size_t> damaged;
  for (size_t i = 0; i < shards.size(); ++i) {
    shard_file(i).sync();
    shard_file(i).forget_cached();
    const std::unique_ptr<Reader> reader = open_file(files[i]->path());
    for (size_t t = 0; t < shards[i].n_tensors; ++t) {
      const size_t tensor = shards[i].first_tensor + t;
      if (!is_intact(tensor, *reader, &buffer, advance)) damaged.push_back(tensor);
    }
    files[i].reset();
  }
  return damaged;
}

void PackedWriter::Impl::require_no_damage(const std::vector<size_t> &damaged) {
  if (damaged.empty()) return;
  for (const size_t tensor : damaged) {
    journal->retract(tensor);
    checksums[tensor].reset();
    done_bytes -= plan.tensors[tensor].bytes;
  }
  throw_error(StatusCode::kIo,
              "%zu tensors came back from the disk different from what was written, the first is "
              "%s in %s; check the disk of '%s', then resume, which writes them again",
              damaged.size(), printable(plan.tensors[damaged[0]].name, 80).c_str(),
              shards[places[damaged[0]].shard].name.c_str(), folder.path().c_str());
}

void PackedWriter::Impl::write_headers() {
  std::vector<uint64_t> tensor_checksums;
  for (const auto &sum : checksums) tensor_checksums.push_back(*sum);
  std::vector<uint64_t> file_checksums;
  for (const auto &file : plan.files) file_checksums.push_back(checksum(file.second));
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string header = shard_header(plan, shards[i], tensor_checksums, file_checksums);
    shard_file(i).write_at(0, bytes_of(header));
    files[i]->sync();
    files[i].reset();
  }
}

void PackedWriter::Impl::write_side_files() {
  for (const auto &[name, content] : plan.files) {
    const auto file = FileWriter::open(join_path(folder.path(), name));
    file->write_at(0, content);
    file->resize(content.size());
    file->sync();
  }
}

PackedWriter::PackedWriter(PackedWriterPlan plan, bool resumes)
    : impl_(std::make_unique<Impl>(std::move(plan), resumes)) {}

PackedWriter::~PackedWriter() {
  try {
    if (!impl_->is_published) impl_->record_finished();
  } catch (const std::exception &) {
    // What is not recorded is written again. There may be no memory for the record either.
  }
}

const PackedWriterPlan &PackedWriter::plan() const noexcept {
  return impl_->plan;
}

uint64_t PackedWriter::total_bytes() const noexcept {
  return impl_->total_bytes;
}

uint64_t PackedWriter::done_bytes() const noexcept {
  return impl_->done_bytes + (impl_->current ? impl_->position : 0);
}

bool PackedWriter::is_done(size_t tensor) const noexcept {
  return impl_->checksums[tensor].has_value();
}

void PackedWriter::append(size_t tensor, std::span<const uint8_t> bytes) {
  impl_->require_current(tensor);
  if (bytes.size() > impl_->plan.tensors[tensor].bytes - impl_->position) {
    throw_error(StatusCode::kInternal, "too many bytes of tensor %s",
                impl_->plan.tensors[tensor].name.c_str());
  }
  const Impl::Place &place = impl_->places[tensor];
  impl_->shard_file(place.shard).write_at(place.offset + impl_->position, bytes);
  impl_->current_checksum.add(bytes);
  impl_->position += bytes.size();
}

void PackedWriter::finish_tensor(size_t tensor) {
  impl_->require_current(tensor);
  const OutputTensor &output = impl_->plan.tensors[tensor];
  if (impl_->position != output.bytes) {
    throw_error(StatusCode::kInternal, "too few bytes of tensor %s", output.name.c_str());
  }
  const Impl::Place &place = impl_->places[tensor];
  impl_->shard_file(place.shard).begin_sync(place.offset, output.bytes);
  impl_->checksums[tensor] = impl_->current_checksum.value();
  impl_->unrecorded.push_back({tensor, *impl_->checksums[tensor]});
  impl_->unrecorded_bytes += output.bytes;
  impl_->done_bytes += output.bytes;
  impl_->current.reset();
  if (impl_->unrecorded_bytes >= impl_->plan.max_unrecorded_bytes ||
      Clock::now() - impl_->last_record >= kMaxUnrecordedTime) {
    impl_->record_finished();
  }
}

void PackedWriter::publish(const std::function<bool(uint64_t, uint64_t)> &progress) {
  for (size_t i = 0; i < impl_->checksums.size(); ++i) {
    if (impl_->checksums[i]) continue;
    throw_error(StatusCode::kState, "tensor %s is not written yet",
                printable(impl_->plan.tensors[i].name).c_str());
  }
  if (impl_->is_published) throw_error(StatusCode::kState, "the snapshot is published already");
  impl_->record_finished();
  impl_->require_no_damage(impl_->read_back(progress));
  impl_->write_headers();
  impl_->write_side_files();
  TensorIndex::open(impl_->folder.path());
  impl_->folder.publish();
  impl_->is_published = true;
}

}  // namespace colibri
