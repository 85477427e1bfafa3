// SPDX-License-Identifier: Apache-2.0
//
// Peak memory of a conversion: below four experts, as they are stored, and the largest dense
// matrix. A source of some experts that are large beside what the process has anyway is made first.
//
//     peak_memory FOLDER

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/convert/converter.h"

namespace {

constexpr uint64_t kWidth = 2048;
constexpr uint64_t kExpertWidth = 1024;
constexpr uint64_t kExperts = 8;
constexpr uint64_t kVocabulary = 4096;
constexpr const char *kConfig =
    R"({"model_type": "glm_moe_dsa", "vocab_size": 4096, "hidden_size": 2048,
 "num_hidden_layers": 1, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
 "num_attention_heads": 2, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
 "qk_rope_head_dim": 16, "v_head_dim": 16, "rope_theta": 10000, "index_n_heads": 2,
 "index_head_dim": 32, "index_topk": 16, "indexer_types": ["full"], "first_k_dense_replace": 0,
 "intermediate_size": 32, "moe_intermediate_size": 1024, "n_routed_experts": 8,
"num_experts_per_tok": 2, "routed_scaling_factor": 2.5, "n_shared_experts": 1, "eos_token_id": 1})";

struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;
  uint64_t bytes() const {
    uint64_t n = 2;
    for (const uint64_t extent : shape) n *= extent;
    return n;
  }
};

std::vector<Tensor> list_tensors() {
  const std::string layer = "model.layers.0.";
  const std::string attention = layer + "self_attn.";
  std::vector<Tensor> tensors = {{"model.embed_tokens.weight", {kVocabulary, kWidth}},
                                 {"lm_head.weight", {kVocabulary, kWidth}},
                                 {"model.norm.weight", {kWidth}},
                                 {layer + "input_layernorm.weight", {kWidth}},
                                 {layer + "post_attention_layernorm.weight", {kWidth}},
                                 {attention + "q_a_proj.weight", {32, kWidth}},
                                 {attention + "q_a_layernorm.weight", {32}},
                                 {attention + "q_b_proj.weight", {64, 32}},
                                 {attention + "kv_a_proj_with_mqa.weight", {48, kWidth}},
                                 {attention + "kv_a_layernorm.weight", {32}},
                                 {attention + "kv_b_proj.weight", {64, 32}},
                                 {attention + "o_proj.weight", {kWidth, 32}},
                                 {attention + "indexer.wq_b.weight", {64, 32}},
                                 {attention + "indexer.wk.weight", {32, kWidth}},
                                 {attention + "indexer.k_norm.weight", {32}},
                                 {attention + "indexer.k_norm.bias", {32}},
                                 {attention + "indexer.weights_proj.weight", {2, kWidth}},
                                 {layer + "mlp.gate.weight", {kExperts, kWidth}},
                                 {layer + "mlp.gate.e_score_correction_bias", {kExperts}}};
  const auto add_mlp = [&](const std::string &prefix) {
    tensors.push_back({prefix + "gate_proj.weight", {kExpertWidth, kWidth}});
    tensors.push_back({prefix + "up_proj.weight", {kExpertWidth, kWidth}});
    tensors.push_back({prefix + "down_proj.weight", {kWidth, kExpertWidth}});
  };
  add_mlp(layer + "mlp.shared_experts.");
  for (uint64_t e = 0; e < kExperts; ++e) {
    add_mlp(layer + "mlp.experts." + std::to_string(e) + ".");
  }
  return tensors;
}

std::string make_header(const std::vector<Tensor> &tensors) {
  std::string json = "{";
  uint64_t offset = 0;
  for (const Tensor &tensor : tensors) {
    json += offset == 0 ? "\"" : ",\"";
    json += tensor.name;
    json += "\":{\"dtype\":\"BF16\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      if (i != 0) json += ",";
      json += std::to_string(tensor.shape[i]);
    }
    json += "],\"data_offsets\":[";
    json += std::to_string(offset);
    offset += tensor.bytes();
    json += ",";
    json += std::to_string(offset);
    json += "]}";
  }
  return json + "}";
}

// Weights of 1/256 to 2, all positive.
void write_source(const std::string &folder) {
  const std::vector<Tensor> tensors = list_tensors();
  const std::string header = make_header(tensors);
  std::ofstream(folder + "/config.json") << kConfig;
  std::ofstream file(folder + "/model.safetensors", std::ios::binary);
  const uint64_t length = header.size();
  file.write(reinterpret_cast<const char *>(&length), sizeof length);
  file << header;
  std::vector<uint16_t> piece(1 << 16);
  uint32_t state = 1;
  for (uint16_t &half : piece) {
    state = state * 1664525u + 1013904223u;
    half = static_cast<uint16_t>(0x3B80 + (state >> 22));
  }
  for (const Tensor &tensor : tensors) {
    for (uint64_t left = tensor.bytes(); left > 0;) {
      const uint64_t n = std::min<uint64_t>(left, piece.size() * 2);
      file.write(reinterpret_cast<const char *>(piece.data()), static_cast<std::streamsize>(n));
      left -= n;
    }
  }
  if (!file.flush()) throw std::runtime_error("the source cannot be written to " + folder);
}

uint64_t peak_bytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

int check(const std::string &folder) {
  std::filesystem::create_directories(folder + "/source");
  write_source(folder + "/source");
  const uint64_t before = peak_bytes();
  colibri::ConversionOptions options;
  options.n_threads = 2;
  options.embedding = options.head = colibri::TargetFormat::kInt8;
  colibri::convert_snapshot(folder + "/source", folder + "/packed", options);
  const uint64_t taken = peak_bytes() - before;
  constexpr uint64_t kExpertBytes = 3 * kWidth * kExpertWidth * 2;
  constexpr uint64_t kLargestDense = kVocabulary * kWidth * 2;
  const uint64_t allowed = 4 * kExpertBytes + kLargestDense;
  std::printf("%.1f MB taken, %.1f MB allowed\n", static_cast<double>(taken) / 1e6,
              static_cast<double>(allowed) / 1e6);
  return taken < allowed ? 0 : 1;
}

}  // namespace

int main(int n_arguments, char **arguments) {
  if (n_arguments != 2) return 2;
  const std::string folder = arguments[1];
  int result = 1;
  try {
    std::filesystem::remove_all(folder);
    result = check(folder);
  } catch (const std::exception &error) {
    std::printf("%s\n", error.what());
  }
  std::filesystem::remove_all(folder);
  return result;
}
