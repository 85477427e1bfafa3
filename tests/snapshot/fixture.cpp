// SPDX-License-Identifier: Apache-2.0
//
// Files are made with plain text and loops, so that a fault of the library's own JSON cannot hide
// itself.

#include "tests/snapshot/fixture.h"

#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

uint64_t element_bytes(const std::string &type) {
  if (type == "F32" || type == "I32") return 4;
  if (type == "I64" || type == "F64") return 8;
  return type == "BF16" || type == "F16" ? 2 : 1;
}

std::string list_text(const std::vector<uint64_t> &numbers) {
  std::string text = "[";
  for (const uint64_t number : numbers) {
    if (text.size() > 1) text += ",";
    text += std::to_string(number);
  }
  return text + "]";
}

// Names and shapes of one layer, without the prefix.
std::vector<std::pair<std::string, std::vector<uint64_t>>> layer_tensors(bool is_dense,
                                                                         bool has_indexer) {
  std::vector<std::pair<std::string, std::vector<uint64_t>>> all = {
      {"input_layernorm.weight", {16}},         {"post_attention_layernorm.weight", {16}},
      {"self_attn.q_a_proj.weight", {12, 16}},  {"self_attn.q_a_layernorm.weight", {12}},
      {"self_attn.q_b_proj.weight", {20, 12}},  {"self_attn.kv_a_proj_with_mqa.weight", {12, 16}},
      {"self_attn.kv_a_layernorm.weight", {8}}, {"self_attn.kv_b_proj.weight", {22, 8}},
      {"self_attn.o_proj.weight", {16, 10}},
  };
  const auto add = [&](const std::string &name, std::vector<uint64_t> shape) {
    all.emplace_back(name, std::move(shape));
  };
  if (has_indexer) {
    add("self_attn.indexer.wq_b.weight", {16, 12});
    add("self_attn.indexer.wk.weight", {8, 16});
    add("self_attn.indexer.k_norm.weight", {8});
    add("self_attn.indexer.k_norm.bias", {8});
    add("self_attn.indexer.weights_proj.weight", {2, 16});
  }
  const std::string mlp = is_dense ? "mlp." : "mlp.shared_experts.";
  const uint64_t width = is_dense ? 24 : 6;
  add(mlp + "gate_proj.weight", {width, 16});
  add(mlp + "up_proj.weight", {width, 16});
  add(mlp + "down_proj.weight", {16, width});
  if (is_dense) return all;
  add("mlp.gate.weight", {4, 16});
  add("mlp.gate.e_score_correction_bias", {4});
  for (int expert = 0; expert < 4; ++expert) {
    const std::string prefix = "mlp.experts." + std::to_string(expert);
    add(prefix + ".gate_proj.weight", {6, 16});
    add(prefix + ".up_proj.weight", {6, 16});
    add(prefix + ".down_proj.weight", {16, 6});
  }
  return all;
}

std::string shard_name(int shard, int n_shards) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", shard + 1, n_shards);
  return name;
}

}  // namespace

TempFolder::TempFolder(const std::string &suffix) {
  std::string pattern = std::filesystem::temp_directory_path().string() + "/colibri-test-XXXXXX";
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern + suffix;
  if (!suffix.empty()) std::filesystem::rename(pattern, path_);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TempFolder::write(const std::string &name, std::string_view bytes) const {
  std::ofstream stream(file(name), std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(stream.good());
}

void TempFolder::remove(const std::string &name) const {
  REQUIRE(std::filesystem::remove(file(name)));
}

TestTensor zeros(std::string name, std::string type, std::vector<uint64_t> shape) {
  uint64_t n_bytes = element_bytes(type);
  for (const uint64_t extent : shape) n_bytes *= extent;
  return {std::move(name), std::move(type), std::move(shape), std::string(n_bytes, '\0')};
}

std::string raw_file(std::string_view header, std::string_view data) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file.append(header).append(data);
}

std::string safetensors_file(const std::vector<TestTensor> &tensors, const std::string &metadata) {
  std::string header = "{";
  std::string data;
  if (!metadata.empty()) header += "\"__metadata__\":" + metadata;
  for (const TestTensor &tensor : tensors) {
    if (header.size() > 1) header += ",";
    header += "\"" + tensor.name + "\":{\"dtype\":\"" + tensor.type + "\",\"shape\":";
    header += list_text(tensor.shape) + ",\"data_offsets\":";
    header += list_text({data.size(), data.size() + tensor.data.size()}) + "}";
    data += tensor.data;
  }
  return raw_file(header + "}", data);
}

std::unique_ptr<Reader> memory_reader(const std::string &name, std::string_view bytes) {
  return make_memory_reader(name, std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

std::string float_bytes(const std::vector<float> &values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TinyModel::TinyModel() {
  config = {{"model_type", "\"glm_moe_dsa\""},
            {"vocab_size", "32"},
            {"hidden_size", "16"},
            {"num_hidden_layers", "3"},
            {"max_position_embeddings", "256"},
            {"rms_norm_eps", "1e-5"},
            {"num_attention_heads", "2"},
            {"q_lora_rank", "12"},
            {"kv_lora_rank", "8"},
            {"qk_nope_head_dim", "6"},
            {"qk_rope_head_dim", "4"},
            {"v_head_dim", "5"},
            {"rope_theta", "10000"},
            {"index_n_heads", "2"},
            {"index_head_dim", "8"},
            {"index_topk", "16"},
            {"indexer_types", "[\"full\",\"full\",\"shared\"]"},
            {"first_k_dense_replace", "1"},
            {"intermediate_size", "24"},
            {"moe_intermediate_size", "6"},
            {"n_routed_experts", "4"},
            {"num_experts_per_tok", "2"},
            {"n_shared_experts", "1"},
            {"routed_scaling_factor", "2.5"},
            {"eos_token_id", "30"}};
  tensors.push_back(zeros("model.embed_tokens.weight", "BF16", {32, 16}));
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const auto &[name, shape] : layer_tensors(layer == 0, layer < 2)) {
      const bool is_bias = name == "mlp.gate.e_score_correction_bias";
      tensors.push_back(zeros(prefix + name, is_bias ? "F32" : "BF16", shape));
    }
  }
  tensors.push_back(zeros("model.norm.weight", "BF16", {16}));
  tensors.push_back(zeros("lm_head.weight", "BF16", {32, 16}));
}

std::string TinyModel::config_text() const {
  std::string text = "{";
  for (const auto &[key, value] : config) {
    if (text.size() > 1) text += ",";
    text += "\"" + key + "\":" + value;
  }
  return text + "}";
}

TestTensor &TinyModel::find(const std::string &name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TestTensor &tensor) { return tensor.name == name; });
  REQUIRE(found != tensors.end());
  return *found;
}

void TinyModel::erase(const std::string &name) {
  const TestTensor *tensor = &find(name);
  tensors.erase(tensors.begin() + (tensor - tensors.data()));
}

void TinyModel::erase_layer(int layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const auto is_of_layer = [&](const TestTensor &tensor) {
    return tensor.name.compare(0, prefix.size(), prefix) == 0;
  };
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(), is_of_layer), tensors.end());
}

void TinyModel::fuse_experts(int layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
  const auto has_expert = [&](uint64_t expert) {
    const std::string name = prefix + std::to_string(expert) + ".gate_proj.weight";
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const TestTensor &tensor) { return tensor.name == name; });
  };
  const TestTensor gate = find(prefix + "0.gate_proj.weight");
  const uint64_t rows = gate.shape[0];
  const uint64_t columns = gate.shape[1];
  TestTensor gate_up{prefix + "gate_up_proj", gate.type, {0, 2 * rows, columns}, {}};
  TestTensor down{prefix + "down_proj", gate.type, {0, columns, rows}, {}};
  for (uint64_t expert = 0; has_expert(expert); ++expert) {
    const std::string name = prefix + std::to_string(expert) + ".";
    gate_up.data += find(name + "gate_proj.weight").data;
    gate_up.data += find(name + "up_proj.weight").data;
    down.data += find(name + "down_proj.weight").data;
    gate_up.shape[0] = down.shape[0] = expert + 1;
    for (const char *part : {"gate_proj", "up_proj", "down_proj"}) erase(name + part + ".weight");
  }
  tensors.push_back(gate_up);
  tensors.push_back(down);
}

void TinyModel::write(const TempFolder &folder) const {
  folder.write("config.json", config_text());
  folder.write("model.safetensors", safetensors_file(tensors, "{\"format\":\"pt\"}"));
}

void TinyModel::write_shards(const TempFolder &folder, int n_shards, bool with_index) const {
  folder.write("config.json", config_text());
  std::vector<std::vector<TestTensor>> shards(static_cast<size_t>(n_shards));
  std::string map;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t shard = i * shards.size() / tensors.size();
    shards[shard].push_back(tensors[i]);
    if (!map.empty()) map += ",";
    map += "\"" + tensors[i].name + "\":\"" + shard_name(static_cast<int>(shard), n_shards) + "\"";
  }
  for (int i = 0; i < n_shards; ++i) {
    folder.write(shard_name(i, n_shards), safetensors_file(shards[static_cast<size_t>(i)]));
  }
  if (with_index) {
    folder.write("model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":{" + map + "}}");
  }
}

}  // namespace colibri::test
