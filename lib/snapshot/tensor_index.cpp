// SPDX-License-Identifier: Apache-2.0
//
// Joins the headers of all shards into one table of names. Nothing of the data is read here.

#include "lib/snapshot/tensor_index.h"

#include <algorithm>
#include <cinttypes>
#include <iterator>

#include "lib/snapshot/json.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr size_t kMaxStamps = 4096;  // per shard

// The value of a metadata key, or nullptr.
const std::string *find_value(const std::vector<std::pair<std::string, std::string>> &metadata,
                              std::string_view key) {
  const auto found = std::find_if(metadata.begin(), metadata.end(),
                                  [&](const auto &entry) { return entry.first == key; });
  return found != metadata.end() ? &found->second : nullptr;
}

// What shards of two conversions differ in, or nullptr.
const char *find_difference(const PackedManifest &a, const PackedManifest &b) {
  if (a.source_identity != b.source_identity || a.model_type != b.model_type) return "source";
  if (!(a.options == b.options)) return "options";
  if (a.counts != b.counts) return "counts of formats";
  return a.files != b.files ? "checksums of side files" : nullptr;
}

// A packed tensor is read as its layout says, in direct reads: size and place are checked once.
void require_fit(const PackedLayout &layout, const TensorInfo &info, const std::string &name,
                 const std::string &file) {
  const char *form = packed_form_name(layout.form);
  if (info.type != TensorType::kU8) {
    throw_error(StatusCode::kFormat, "%s: tensor %s is packed (%s), but stored as %s instead of U8",
                printable(file, 60).c_str(), printable(name).c_str(), form,
                tensor_type_name(info.type));
  }
  if (info.bytes != layout.tensor_bytes()) {
    throw_error(StatusCode::kFormat,
                "%s: tensor %s has %" PRIu64 " bytes; its packed layout (%s) needs %" PRIu64,
                printable(file, 60).c_str(), printable(name).c_str(), info.bytes, form,
                layout.tensor_bytes());
  }
  if (info.offset % kPackedAlignment == 0) return;
  throw_error(StatusCode::kFormat,
              "%s: packed tensor %s begins at byte %" PRIu64
              " of the file, which is no multiple of %" PRIu64,
              printable(file, 60).c_str(), printable(name).c_str(), info.offset, kPackedAlignment);
}

void require_sealed(HeaderSeal seal, const std::string &file) {
  if (seal == HeaderSeal::kIntact) return;
  throw_error(StatusCode::kFormat, "%s: the packed snapshot's %s; convert or copy it again",
              printable(file, 60).c_str(),
              seal == HeaderSeal::kNone ? "file carries no checksum of its header"
                                        : "header differs from its checksum");
}

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
  const std::string *manifest = find_value(header.metadata, kPackedManifestKey);
  // Damage to the manifest's own key must not make a plain snapshot of a packed one.
  if (manifest != nullptr || header.seal != HeaderSeal::kNone) require_sealed(header.seal, name);
  add_manifest(file, manifest);
}

void TensorIndex::add_metadata(const std::string &file,
                               const std::vector<std::pair<std::string, std::string>> &metadata) {
  for (const auto &[key, value] : metadata) {
    if (key == kFormatStampKey) add_stamps(file, value);
    if (key != kPackedManifestKey && key != kHeaderSealKey) metadata_.try_emplace(key, value);
  }
}

void TensorIndex::add_stamps(const std::string &file, const std::string &json) {
  const JsonDocument document = JsonDocument::parse(json, file + " (" + kFormatStampKey + ")");
  const JsonValue root = document.root();
  if (!root.is_object() || root.size() > kMaxStamps) {
    throw_error(StatusCode::kFormat, "%s: %s is not an object of at most %zu entries", file.c_str(),
                kFormatStampKey, kMaxStamps);
  }
  for (size_t i = 0; i < root.size(); ++i) {
    const std::string_view tensor = root.key_at(i);
    const auto format = root.at(i).as_string();
    if (!format) {
      throw_error(StatusCode::kFormat, "%s: %s of %s is not a text", file.c_str(), kFormatStampKey,
                  printable(tensor).c_str());
    }
    const auto [entry, is_new] = stamps_.try_emplace(std::string(tensor), *format);
    if (is_new || entry->second == *format) continue;
    throw_error(StatusCode::kFormat, "%s: %s calls %s '%s', another shard calls it '%s'",
                file.c_str(), kFormatStampKey, printable(tensor, 80).c_str(),
                printable(*format, 20).c_str(), printable(entry->second, 20).c_str());
  }
}

// `json` is nullptr for a shard without a manifest. A packed snapshot has one in every shard: a
// tensor without a checksum could not be verified.
void TensorIndex::add_manifest(uint32_t file, const std::string *json) {
  if (json == nullptr && !is_packed()) return;
  if (json == nullptr || (file != 0 && !is_packed())) {
    const ShardFile &with = files_[json == nullptr ? 0 : file];
    const ShardFile &without = files_[json == nullptr ? file : 0];
    throw_error(StatusCode::kFormat,
                "%s has a manifest (%s) and %s has none; they are not shards of one snapshot",
                printable(with.name, 60).c_str(), kPackedManifestKey,
                printable(without.name, 60).c_str());
  }
  join_manifest(file, parse_packed_manifest(*json, files_[file].name));
}

// Entries are distinct and each names a tensor of the shard, so that equal numbers mean that every
// tensor has its entry.
void TensorIndex::join_manifest(uint32_t file, PackedManifest manifest) {
  const std::vector<PackedTensor> entries = std::move(manifest.tensors);
  manifest.tensors.clear();
  size_t first_layout = 0;
  if (!manifest_) {
    manifest_ = std::move(manifest);
  } else {
    if (const char *difference = find_difference(*manifest_, manifest)) {
      throw_error(StatusCode::kFormat,
                  "%s and %s have manifests (%s) that differ in: %s; they are of two conversions",
                  printable(files_[0].name, 60).c_str(), printable(files_[file].name, 60).c_str(),
                  kPackedManifestKey, difference);
    }
    first_layout = manifest_->layouts.size();
    std::move(manifest.layouts.begin(), manifest.layouts.end(),
              std::back_inserter(manifest_->layouts));
  }
  for (const PackedTensor &entry : entries) note_packed(file, entry, first_layout);
  if (entries.size() == files_[file].n_tensors) return;
  for (const auto &[name, info] : tensors_) {
    if (info.file != file || info.checksum) continue;
    throw_error(StatusCode::kFormat, "%s: tensor %s is absent from the manifest (%s)",
                printable(files_[file].name, 60).c_str(), printable(name).c_str(),
                kPackedManifestKey);
  }
}

void TensorIndex::note_packed(uint32_t file, const PackedTensor &entry, size_t first_layout) {
  const std::string &shard = files_[file].name;
  const auto found = tensors_.find(entry.name);
  if (found == tensors_.end() || found->second.file != file) {
    throw_error(StatusCode::kFormat, "%s: the manifest (%s) lists tensor %s, which is not there",
                printable(shard, 60).c_str(), kPackedManifestKey, printable(entry.name).c_str());
  }
  TensorInfo &info = found->second;
  info.checksum = entry.checksum;
  if (entry.layout < 0) return;
  const size_t layout = first_layout + static_cast<size_t>(entry.layout);
  require_fit(manifest_->layouts[layout], info, entry.name, shard);
  info.layout = static_cast<int32_t>(layout);
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

const PackedLayout *TensorIndex::packed_layout(std::string_view name) const noexcept {
  const TensorInfo *info = find(name);
  if (info == nullptr || info->layout < 0) return nullptr;
  return &manifest_->layouts[static_cast<size_t>(info->layout)];
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
