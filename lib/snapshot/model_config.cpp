// SPDX-License-Identifier: Apache-2.0
//
// The family does the reading; here is what belongs to no family.

#include "lib/snapshot/model_config.h"

#include <bit>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "lib/base/status.h"
#include "lib/snapshot/config_reader.h"
#include "lib/snapshot/family.h"
#include "lib/snapshot/hash.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

class ConfigHash {
 public:
  template <typename... Members>
  void add_all(const Members &...members) noexcept {
    (add(members), ...);
  }
  uint64_t value() const noexcept { return hash_; }

 private:
  void add_bits(uint64_t bits) noexcept {
    char bytes[sizeof(bits)];
    std::memcpy(bytes, &bits, sizeof(bits));
    hash_ = hash_bytes(std::string_view(bytes, sizeof(bytes)), hash_);
  }
  void add(float number) noexcept { add_bits(std::bit_cast<uint32_t>(number)); }
  void add(const std::string &text) noexcept { hash_ = hash_bytes(text, hash_); }
  template <typename T>
  requires std::is_enum_v<T> || std::is_integral_v<T>
  void add(T number) noexcept { add_bits(static_cast<uint64_t>(number)); }
  template <typename T>
  void add(const std::vector<T> &list) noexcept {
    add_bits(list.size());
    for (const T &entry : list) add(entry);
  }
  void add(const Activation &activation) noexcept {
    const auto &[kind, limit, alpha] = activation;
    add_all(kind, limit, alpha);
  }
  void add(const RotaryConfig &rotary) noexcept {
    const auto &[theta, width, is_interleaved, scaling, factor, original_positions, beta_fast,
                 beta_slow, truncates, amplitude] = rotary;
    add_all(theta, width, is_interleaved, scaling, factor, original_positions, beta_fast, beta_slow,
            truncates, amplitude);
  }

  uint64_t hash_ = 0;
};

}  // namespace

ModelConfig parse_model_config(const JsonValue &root, const std::string &file) {
  if (!root.is_object()) throw_error(StatusCode::kFormat, "%s: not a JSON object", file.c_str());
  const ConfigReader reader(root, file);
  const std::string_view model_type = reader.read_text("model_type").value_or("");
  const Family *family = find_family(model_type);
  if (family == nullptr) {
    throw_error(StatusCode::kUnsupported,
                "%s: the architecture '%s' (model_type) is not supported; supported: %s",
                file.c_str(), printable(model_type, 60).c_str(), supported_model_types().c_str());
  }
  ModelConfig config = family->parse(reader);
  config.model_type = family->model_type;
  config.stop_ids = read_stop_ids(root, file);
  return config;
}

// The bindings name every member, so a new one does not compile until it is here.
uint64_t hash_model_config(const ModelConfig &config) noexcept {
  const auto &[model_type, vocabulary_size, width, n_layers, max_positions, rms_norm_eps,
               ties_embedding, attention, n_heads, softmax_factor, rotary, windows, query_latent,
               kv_latent, nope_width, value_width, latent_norm_eps, n_kv_heads, head_width,
               query_key_norm, has_query_bias, has_output_bias, has_sinks, index_heads, index_width,
               index_top_k, has_interleaved_index_rope, indexer_kinds, feed_forward_kinds,
               dense_width, expert_width, n_experts, n_experts_per_token, expert_activation,
               has_expert_bias, shared_width, has_shared_gate, router, has_router_bias, n_groups,
               n_top_groups, normalises_top_k, routed_scale, stop_ids] = config;
  static_cast<void>(stop_ids);
  ConfigHash hash;
  hash.add_all(model_type, vocabulary_size, width, n_layers, max_positions, rms_norm_eps,
               ties_embedding, attention, n_heads, softmax_factor, rotary, windows, query_latent,
               kv_latent, nope_width, value_width, latent_norm_eps, n_kv_heads, head_width,
               query_key_norm, has_query_bias, has_output_bias, has_sinks, index_heads, index_width,
               index_top_k, has_interleaved_index_rope, indexer_kinds, feed_forward_kinds,
               dense_width, expert_width, n_experts, n_experts_per_token, expert_activation,
               has_expert_bias, shared_width, has_shared_gate, router, has_router_bias, n_groups,
               n_top_groups, normalises_top_k, routed_scale);
  return hash.value();
}

}  // namespace colibri
