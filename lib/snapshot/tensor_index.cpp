// SPDX-License-Identifier: Apache-2.0
//
// Joins the headers of all shards into one table of names. Nothing of the data is read here.

#include "lib/snapshot/tensor_index.h"

#include <algorithm>

#include "lib/snapshot/json.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr const char *kStampKey = "colibri.fmt";
constexpr size_t kMaxStamps = 4096;  // per shard

}  // namespace

void TensorIndex::add_shard(std::unique_ptr<Reader> reader) {
  SafetensorsHeader header = read_safetensors_header(*reader);
  ++n_headers_parsed_;
  const uint32_t file = static_cast<uint32_t>(files_.size());
  ShardFile shard{file_name(reader->name()), nullptr, header.header_hash, header.tensors.size()};
  const uint64_t facts[] = {identity_hash_, reader->size(), header.header_hash};
  const std::string_view fact_bytes(reinterpret_cast<const char *>(facts), sizeof facts);
  identity_hash_ = hash_bytes(shard.name, hash_bytes(fact_bytes, 0));
  shard.reader = std::move(reader);
  files_.push_back(std::move(shard));
  const std::string &name = files_.back().name;
  for (TensorRecord &record : header.tensors) {
    TensorInfo info{file, record.type, std::move(record.shape), record.offset, record.bytes};
    const auto [entry, is_new] = tensors_.try_emplace(std::move(record.name), std::move(info));
    if (is_new) continue;
    throw_error(StatusCode::kFormat, "tensor %s stands in two files, %s and %s; remove one of them",
                printable(entry->first).c_str(), printable(file_of(entry->second), 60).c_str(),
                printable(name, 60).c_str());
  }
  add_metadata(name, header.metadata);
}

void TensorIndex::add_metadata(const std::string &file,
                               const std::vector<std::pair<std::string, std::string>> &metadata) {
  for (const auto &[key, value] : metadata) {
    if (key == kStampKey) add_stamps(file, value);
    metadata_.try_emplace(key, value);
  }
}

void TensorIndex::add_stamps(const std::string &file, const std::string &json) {
  const JsonDocument document = JsonDocument::parse(json, file + " (" + kStampKey + ")");
  const JsonValue root = document.root();
  if (!root.is_object() || root.size() > kMaxStamps) {
    throw_error(StatusCode::kFormat, "%s: %s is not an object of at most %zu entries", file.c_str(),
                kStampKey, kMaxStamps);
  }
  for (size_t i = 0; i < root.size(); ++i) {
    const std::string_view tensor = root.key_at(i);
    const auto format = root.at(i).as_string();
    if (!format) {
      throw_error(StatusCode::kFormat, "%s: %s of %s is not a text", file.c_str(), kStampKey,
                  printable(tensor).c_str());
    }
    const auto [entry, is_new] = stamps_.try_emplace(std::string(tensor), *format);
    if (is_new || entry->second == *format) continue;
    throw_error(StatusCode::kFormat, "%s: %s calls %s '%s', another shard calls it '%s'",
                file.c_str(), kStampKey, printable(tensor, 80).c_str(),
                printable(*format, 20).c_str(), printable(entry->second, 20).c_str());
  }
}

// Every tensor must be where the index file says, unless its shard is absent altogether.
void TensorIndex::check_weight_map(const SnapshotFiles &files) const {
  for (const auto &[tensor, shard] : files.weight_map) {
    const TensorInfo *info = find(tensor);
    if (info != nullptr && file_of(*info) == shard) continue;
    if (!std::binary_search(files.shards.begin(), files.shards.end(), shard)) continue;
    throw_error(info != nullptr ? StatusCode::kFormat : StatusCode::kIncomplete,
                "the index file places tensor %s in %s, but %s%s", printable(tensor, 80).c_str(),
                printable(shard, 40).c_str(), info != nullptr ? "it stands in " : "it is not there",
                info != nullptr ? printable(file_of(*info), 40).c_str() : "");
  }
}

TensorIndex TensorIndex::open_present(const SnapshotFiles &files) {
  TensorIndex index;
  index.directory_ = files.directory;
  for (const std::string &name : files.shards) {
    index.add_shard(open_file(join_path(files.directory, name)));
  }
  index.check_weight_map(files);
  return index;
}

TensorIndex TensorIndex::open(const std::string &path) {
  const SnapshotFiles files = locate_snapshot_files(path);
  if (files.missing.empty()) return open_present(files);
  std::string first_absent;
  for (const auto &[tensor, shard] : files.weight_map) {
    if (std::binary_search(files.shards.begin(), files.shards.end(), shard)) continue;
    first_absent = "; first absent tensor: " + printable(tensor);
    break;
  }
  throw_error(StatusCode::kIncomplete, "incomplete model: missing shard %s; %s%s",
              files.missing.c_str(), describe_shards(files.shards).c_str(), first_absent.c_str());
}

TensorIndex TensorIndex::from_readers(std::vector<std::unique_ptr<Reader>> readers) {
  TensorIndex index;
  for (std::unique_ptr<Reader> &reader : readers) index.add_shard(std::move(reader));
  return index;
}

const TensorInfo *TensorIndex::find(std::string_view name) const noexcept {
  const auto entry = tensors_.find(name);
  return entry != tensors_.end() ? &entry->second : nullptr;
}

std::string_view TensorIndex::stamped_format(std::string_view name) const noexcept {
  const auto entry = stamps_.find(name);
  return entry != stamps_.end() ? std::string_view(entry->second) : std::string_view();
}

std::vector<std::string_view> TensorIndex::names() const {
  std::vector<std::string_view> all;
  all.reserve(tensors_.size());
  for (const auto &entry : tensors_) all.push_back(entry.first);
  std::sort(all.begin(), all.end());
  return all;
}

Status TensorIndex::read(const TensorInfo &info, void *destination) const noexcept {
  return files_[info.file].reader->read_at(info.offset, destination, info.bytes);
}

}  // namespace colibri
