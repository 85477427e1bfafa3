// SPDX-License-Identifier: Apache-2.0
//
// What a config lists layer by layer, or says by a formula: indexers, windows, dense layers.

#include <algorithm>
#include <string_view>

#include "lib/snapshot/config_parts.h"

namespace colibri {
namespace {

// The texts of a list of n_layers texts.
std::vector<std::string_view> read_layer_texts(const ConfigReader &reader, const char *key,
                                               uint32_t n_layers, const std::string &rule) {
  const JsonValue list = reader.get(key);
  if (!list.is_array() || list.size() != n_layers) reader.fail(key, rule);
  std::vector<std::string_view> names;
  for (size_t i = 0; i < list.size(); ++i) names.push_back(list.at(i).as_string().value_or(""));
  return names;
}

// A list of n_layers texts, each equal to one of two names; true stands for the first.
std::vector<bool> read_layer_names(const ConfigReader &reader, const char *key, uint32_t n_layers,
                                   std::initializer_list<std::string_view> first,
                                   std::initializer_list<std::string_view> second) {
  const std::string rule = "a list of " + std::to_string(n_layers) + " times '" +
                           std::string(*first.begin()) + "' or '" + std::string(*second.begin()) +
                           "' is needed";
  std::vector<bool> result;
  for (const std::string_view name : read_layer_texts(reader, key, n_layers, rule)) {
    const bool is_first = std::find(first.begin(), first.end(), name) != first.end();
    if (!is_first && std::find(second.begin(), second.end(), name) == second.end()) {
      reader.fail(key, rule + "; entry " + std::to_string(result.size()) + " is neither");
    }
    result.push_back(is_first);
  }
  return result;
}

std::vector<bool> read_pattern(const ConfigReader &reader, const char *key, uint32_t n_layers) {
  if (reader.get(key).is_array()) {
    return read_layer_names(reader, key, n_layers, {"F", "full"}, {"S", "shared"});
  }
  const std::string_view pattern = reader.read_text(key).value_or("");
  if (pattern.size() != n_layers || pattern.find_first_not_of("FS") != std::string_view::npos) {
    reader.fail(key, std::to_string(n_layers) + " letters F or S are needed");
  }
  std::vector<bool> result;
  for (const char letter : pattern) result.push_back(letter == 'F');
  return result;
}

// indexer_types wins over index_topk_pattern, which wins over the frequency formula.
void read_indexer_kinds(const ConfigReader &reader, ModelConfig *config) {
  const uint32_t n_layers = config->n_layers;
  std::vector<bool> is_full;
  if (reader.has("indexer_types")) {
    is_full = read_layer_names(reader, "indexer_types", n_layers, {"full"}, {"shared"});
  } else if (reader.has("index_topk_pattern")) {
    is_full = read_pattern(reader, "index_topk_pattern", n_layers);
  } else {
    const int64_t frequency = std::max(reader.read_count("index_topk_freq", {0, 4096}, 1), 1u);
    const int64_t offset = reader.read_count("index_skip_topk_offset", {0, 4096}, 2);
    for (int64_t layer = 0; layer < n_layers; ++layer) {
      is_full.push_back(std::max<int64_t>(layer - offset + 1, 0) % frequency == 0);
    }
  }
  if (!is_full.front()) {
    reader.fail_relation(
        "layer 0 shares the selection of an indexer, but no layer comes before it");
  }
  for (const bool full : is_full) {
    config->indexer_kinds.push_back(full ? IndexerKind::kFull : IndexerKind::kShared);
  }
}

// What layer_types says of each layer: whether it is windowed.
std::vector<bool> read_layer_types(const ConfigReader &reader, const ModelConfig &config) {
  const char *const key = "layer_types";
  const bool is_latent = config.attention == AttentionKind::kLatent;
  const std::string rule =
      "a list of " + std::to_string(config.n_layers) + " kinds of attention is needed";
  std::vector<bool> is_windowed;
  for (const std::string_view name : read_layer_texts(reader, key, config.n_layers, rule)) {
    const bool slides = !is_latent && name == "sliding_attention";
    if (!slides && name != "full_attention" && !(is_latent && name == "indexed_attention")) {
      reader.fail_unsupported(key, "entry " + std::to_string(is_windowed.size()) +
                                       " is a kind that this version does not compute for this "
                                       "architecture");
    }
    is_windowed.push_back(slides);
  }
  return is_windowed;
}

void set_feed_forward(const std::vector<bool> &is_dense, ModelConfig *config) {
  for (const bool dense : is_dense) {
    config->feed_forward_kinds.push_back(dense ? FeedForwardKind::kDense : FeedForwardKind::kMoe);
  }
}

// mlp_layer_types, where it is there.
bool read_mlp_layer_types(const ConfigReader &reader, ModelConfig *config) {
  const char *const key = "mlp_layer_types";
  if (!reader.has(key)) return false;
  set_feed_forward(read_layer_names(reader, key, config->n_layers, {"dense"}, {"sparse"}), config);
  return true;
}

}  // namespace

void read_windows(const ConfigReader &reader, bool is_on,
                  const std::function<bool(uint32_t layer)> &is_windowed, ModelConfig *config) {
  config->windows.assign(config->n_layers, 0);
  std::vector<bool> listed;
  if (reader.has("layer_types")) listed = read_layer_types(reader, *config);
  if (!is_on) return;
  const uint32_t window = reader.read_count("sliding_window", {0, INT32_MAX}, 0);
  for (uint32_t layer = 0; layer < config->n_layers; ++layer) {
    if (!listed.empty() && listed[layer] && window == 0) {
      reader.fail("sliding_window", "layer " + std::to_string(layer) +
                                        " is windowed by layer_types, and a size is needed");
    }
    const bool applies = listed.empty() ? is_windowed && is_windowed(layer) : listed[layer];
    if (applies) config->windows[layer] = window;
  }
}

void read_indexer(const ConfigReader &reader, bool is_interleaved, ModelConfig *config) {
  config->index_heads = reader.require_count("index_n_heads", {1, 4096});
  config->index_width = reader.require_count("index_head_dim", {1, 1u << 14});
  config->index_top_k = reader.require_count("index_topk", {1, INT32_MAX});
  config->has_interleaved_index_rope = reader.read_flag("indexer_rope_interleave", is_interleaved);
  if (config->rotary.width > config->index_width) {
    reader.fail("index_head_dim", "it must be at least qk_rope_head_dim, which is " +
                                      std::to_string(config->rotary.width));
  }
  read_indexer_kinds(reader, config);
}

void read_first_dense(const ConfigReader &reader, std::optional<uint32_t> if_absent,
                      ModelConfig *config) {
  if (reader.read_count("moe_layer_freq", {0, 1024}, 1) != 1) {
    reader.fail_unsupported("moe_layer_freq", "this version computes 1 only");
  }
  if (read_mlp_layer_types(reader, config)) return;
  const char *const key = "first_k_dense_replace";
  const CountRange range = {0, 1024};
  const uint32_t n_dense =
      if_absent ? reader.read_count(key, range, *if_absent) : reader.require_count(key, range);
  std::vector<bool> is_dense;
  for (uint32_t layer = 0; layer < config->n_layers; ++layer) is_dense.push_back(layer < n_dense);
  set_feed_forward(is_dense, config);
}

void read_sparse_step(const ConfigReader &reader, ModelConfig *config) {
  if (read_mlp_layer_types(reader, config)) return;
  const uint32_t step = reader.read_count("decoder_sparse_step", {1, 1024}, 1);
  std::vector<bool> is_dense;
  for (uint32_t layer = 0; layer < config->n_layers; ++layer) {
    is_dense.push_back((layer + 1) % step != 0);
  }
  const char *const key = "mlp_only_layers";
  const JsonValue list = reader.get(key);
  if (reader.has(key) && !list.is_array()) reader.fail(key, "a list of layers is needed");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::optional<int64_t> layer = list.at(i).as_integer();
    if (!layer || *layer < 0) reader.fail(key, "a list of layers is needed");
    if (*layer < config->n_layers) is_dense[static_cast<size_t>(*layer)] = true;
  }
  set_feed_forward(is_dense, config);
}

void set_all_sparse(ModelConfig *config) {
  config->feed_forward_kinds.assign(config->n_layers, FeedForwardKind::kMoe);
}

}  // namespace colibri
