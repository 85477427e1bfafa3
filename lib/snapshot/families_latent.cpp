// SPDX-License-Identifier: Apache-2.0
//
// Families with multi-head latent attention.

#include "lib/snapshot/config_parts.h"
#include "lib/snapshot/family.h"

namespace colibri {
namespace {

constexpr NameTable kNames[] = {{}};  // all names are the usual ones

// What the families share; `n_dense_if_absent` as read_first_dense().
void read_latent_family(const ConfigReader &reader, LatentOptions options,
                        std::optional<uint32_t> n_dense_if_absent, ModelConfig *config) {
  read_sizes(reader, config);
  read_latent_attention(reader, options, config);
  read_rotary(reader, {true, std::nullopt, std::nullopt}, config);
  read_windows(reader, false, nullptr, config);
  read_first_dense(reader, n_dense_if_absent, config);
  read_experts(reader, "moe_intermediate_size", config);
  read_sigmoid_router(reader, config);
}

ModelConfig parse_glm_moe_dsa(const ConfigReader &reader) {
  ModelConfig config;
  read_latent_family(reader, {}, std::nullopt, &config);
  read_indexer(reader, true, &config);
  return config;
}

ModelConfig parse_deepseek_v3(const ConfigReader &reader) {
  ModelConfig config;
  read_latent_family(reader, {.may_lack_query_latent = true}, std::nullopt, &config);
  return config;
}

// The indexer rotates halves although attention rotates adjacent pairs.
ModelConfig parse_deepseek_v32(const ConfigReader &reader) {
  ModelConfig config;
  read_latent_family(reader, {}, std::nullopt, &config);
  read_indexer(reader, false, &config);
  return config;
}

ModelConfig parse_glm4_moe_lite(const ConfigReader &reader) {
  ModelConfig config;
  read_latent_family(reader, {}, 1, &config);
  return config;
}

constexpr Family kFamilies[] = {
    {"glm_moe_dsa", "GLM-5, 5.1, 5.2, 5.3", parse_glm_moe_dsa, kNames, nullptr},
    {"glm4_moe_lite", "GLM-4.7-Flash", parse_glm4_moe_lite, kNames, nullptr},
    {"deepseek_v3", "DeepSeek-V3, R1, V3.1, Moonlight", parse_deepseek_v3, kNames, nullptr},
    {"deepseek_v32", "DeepSeek-V3.2", parse_deepseek_v32, kNames, nullptr},
};

}  // namespace

std::span<const Family> latent_families() noexcept {
  return kFamilies;
}

}  // namespace colibri
