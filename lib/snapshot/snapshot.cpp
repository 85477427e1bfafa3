// SPDX-License-Identifier: Apache-2.0
//
// Opens a model folder in the order of cheapness: names of files, config.json, headers of shards,
// tensors. Side files with stop tokens may be absent; if they are there they must be sound.

#include "lib/snapshot/snapshot.h"

#include <algorithm>
#include <optional>

#include "lib/snapshot/config_reader.h"
#include "lib/snapshot/model_tensors.h"
#include "lib/snapshot/printable.h"
#include "lib/snapshot/snapshot_files.h"

namespace colibri {
namespace {

// Published files have some 200 KB at most. Parsed, a file takes up to 25 times its size for a
// moment.
constexpr uint64_t kMaxConfigBytes = 4u << 20;
// A row no longer than the usual group loses nothing by having one scale.
constexpr uint64_t kDefaultGroup = 64;

JsonDocument read_json_file(const std::string &directory, const std::string &name) {
  const std::vector<uint8_t> bytes = read_whole_file(join_path(directory, name), kMaxConfigBytes);
  return JsonDocument::parse({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, name);
}

std::optional<JsonDocument> read_optional_json(const std::string &directory,
                                               const std::string &name) {
  if (!is_named(join_path(directory, name))) return std::nullopt;
  return read_json_file(directory, name);
}

// eos_token of tokenizer_config.json: a text, an added-token object with `content`, or a list of
// either.
void collect_stop_texts(JsonValue value, std::vector<std::string> *texts) {
  if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      if (!value.at(i).is_array()) collect_stop_texts(value.at(i), texts);
    }
    return;
  }
  const auto text = value.is_object() ? value.get("content").as_string() : value.as_string();
  if (text && !text->empty()) texts->emplace_back(*text);
}

bool has_coarse_scales(const WeightSource &source) {
  const bool is_packed_row = source.format == StoredFormat::kPacked &&
                             source.packed.format == WeightFormat::kInt4 &&
                             source.packed.has_row_scale;
  return (source.format == StoredFormat::kInt4Row || is_packed_row) &&
         source.columns > kDefaultGroup;
}

std::vector<std::string> find_warnings(const ModelSources &sources) {
  std::vector<std::string> warnings;
  bool has_row_experts = false;
  const WeightSource *rounded_bias = nullptr;
  for (const LayerSources &layer : sources.layers) {
    for (const ExpertSource &expert : layer.experts) {
      for (const WeightSource *source : {&expert.gate, &expert.up, &expert.down}) {
        has_row_experts |= has_coarse_scales(*source);
      }
    }
    if (layer.selection_bias.is_present() && layer.selection_bias.format != StoredFormat::kF32) {
      rounded_bias = &layer.selection_bias;
    }
  }
  if (has_row_experts) {
    warnings.emplace_back(
        "routed experts are 4-bit with one scale per row; quality is clearly lower than with "
        "groups");
  }
  if (rounded_bias != nullptr) {
    warnings.push_back(printable(rounded_bias->name) + " is stored as " +
                       stored_format_name(rounded_bias->format) +
                       "; routing differs from the model unless it is float32");
  }
  return warnings;
}

}  // namespace

Snapshot::Snapshot(TensorIndex index, JsonDocument document) noexcept
    : index_(std::move(index)), config_document_(std::move(document)) {}

Snapshot Snapshot::open(const std::string &path, LinkPolicy links) {
  const SnapshotFiles files = locate_snapshot_files(path);
  if (links == LinkPolicy::kInside) require_inside(files);
  JsonDocument document = read_json_file(files.directory, "config.json");
  ModelConfig config = parse_model_config(document.root(), document.name());
  Snapshot snapshot(TensorIndex::open_present(files), std::move(document));
  snapshot.config_ = std::move(config);
  snapshot.sources_ = resolve_model_tensors(snapshot.index_, snapshot.config_, files.missing);
  snapshot.warnings_ = find_warnings(snapshot.sources_);
  snapshot.collect_stops();
  snapshot.measure_experts();
  return snapshot;
}

void Snapshot::collect_stops() {
  stop_ids_ = config_.stop_ids;
  if (const auto generation = read_optional_json(directory(), "generation_config.json")) {
    const std::vector<int64_t> ids = read_stop_ids(generation->root(), generation->name());
    stop_ids_.insert(stop_ids_.end(), ids.begin(), ids.end());
  }
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
  if (const auto tokenizer = read_optional_json(directory(), "tokenizer_config.json")) {
    collect_stop_texts(tokenizer->root().get("eos_token"), &stop_token_texts_);
  }
}

void Snapshot::measure_experts() {
  for (const LayerSources &layer : sources_.layers) {
    for (const ExpertSource &expert : layer.experts) {
      uint64_t bytes = 0;
      const WeightSource *last = nullptr;
      for (const WeightSource *source : {&expert.gate, &expert.up, &expert.down, &expert.gate_bias,
                                         &expert.up_bias, &expert.down_bias}) {
        // Gate and up that alternate lie in one span.
        if (last == nullptr || source->values != last->values) bytes += source->stored_bytes();
        last = source;
      }
      largest_expert_bytes_ = std::max(largest_expert_bytes_, bytes);
      all_experts_bytes_ += bytes;  // spans of files, which do not overlap
    }
  }
}

std::map<std::string, FormatCount> Snapshot::format_histogram() const {
  std::map<std::string, FormatCount> histogram;
  TensorSpan last;
  visit_sources(sources_, [&](const WeightSource &source) {
    FormatCount &count = histogram[describe_format(source)];
    count.n_tensors += 1;
    if (source.values != last) count.bytes += source.stored_bytes();
    last = source.values;
  });
  return histogram;
}

}  // namespace colibri
