// SPDX-License-Identifier: Apache-2.0

#include "tests/snapshot/packed_model.h"

#include <algorithm>
#include <iterator>

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

constexpr uint32_t kHeads = 2, kLatent = 8, kNope = 6, kValue = 5;  // of TinyModel's config

bool ends_with(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

PackedEntry make_matrix_entry(const TestTensor &tensor, uint32_t seed) {
  return {tensor.name,
          PackedForm::kMatrix,
          {make_packed_matrix(WeightFormat::kInt8, static_cast<uint32_t>(tensor.shape[0]),
                              static_cast<uint32_t>(tensor.shape[1]), 0, ScaleType::kF32, seed)},
          {}};
}

PackedEntry make_heads_entry(const std::string &name, uint32_t seed) {
  PackedEntry entry{name, PackedForm::kHeads, {}, {}};
  for (uint32_t head = 0; head < kHeads; ++head) {
    entry.parts.push_back(
        make_packed_matrix(WeightFormat::kBF16, kLatent, kNope, 0, ScaleType::kF32, seed + head));
    entry.parts.push_back(make_packed_matrix(WeightFormat::kInt8, kValue, kLatent, 16,
                                             ScaleType::kBF16, seed + head));
  }
  return entry;
}

PackedEntry make_expert_entry(const std::string &name, uint32_t seed) {
  const auto make = [&](uint32_t columns, uint32_t depth, uint32_t part) {
    return make_packed_matrix(WeightFormat::kInt4, columns, depth, 16, ScaleType::kBF16,
                              3 * seed + part);
  };
  return {name, PackedForm::kExpert, {make(6, 16, 0), make(6, 16, 1), make(16, 6, 2)}, {}};
}

// Nothing for the up and down matrices of experts, which the gate's entry has.
std::optional<PackedEntry> make_entry(const TestTensor &tensor, uint32_t seed) {
  const std::string &name = tensor.name;
  if (name.find(".mlp.experts.") != std::string::npos) {
    const std::string gate = ".gate_proj.weight";
    if (!ends_with(name, gate)) return std::nullopt;
    return make_expert_entry(name.substr(0, name.size() - gate.size()), seed);
  }
  if (ends_with(name, "kv_b_proj.weight")) return make_heads_entry(name, seed);
  const bool is_plain = tensor.shape.size() < 2 || ends_with(name, "mlp.gate.weight") ||
                        ends_with(name, "weights_proj.weight");
  if (is_plain) return PackedEntry{name, std::nullopt, {}, tensor};
  return make_matrix_entry(tensor, seed);
}

// kv_b_proj as checkpoints have it: of each head the rows of the key half, then of the value half.
std::vector<float> join_heads(const std::vector<MadeMatrix> &parts) {
  std::vector<float> rows;
  for (size_t i = 0; i < parts.size(); i += 2) {
    for (uint32_t nope = 0; nope < kNope; ++nope) {
      for (uint32_t latent = 0; latent < kLatent; ++latent) {
        rows.push_back(parts[i].weights[latent * kNope + nope]);
      }
    }
    rows.insert(rows.end(), parts[i + 1].weights.begin(), parts[i + 1].weights.end());
  }
  return rows;
}

}  // namespace

PackedModel::PackedModel() {
  uint32_t seed = 0;
  for (const TestTensor &tensor : tiny.tensors) {
    if (std::optional<PackedEntry> entry = make_entry(tensor, ++seed)) add(std::move(*entry));
  }
}

PackedEntry &PackedModel::find(const std::string &name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const PackedEntry &entry) { return entry.name == name; });
  REQUIRE(found != entries.end());
  return *found;
}

void PackedModel::erase(const std::string &name) {
  const PackedEntry *entry = &find(name);
  entries.erase(entries.begin() + (entry - entries.data()));
}

void PackedModel::add(PackedEntry entry) {
  const auto first_plain = std::find_if(entries.begin(), entries.end(),
                                        [](const PackedEntry &other) { return !other.form; });
  entries.insert(entry.form ? first_plain : entries.end(), std::move(entry));
}

PackedShard PackedModel::shard() const {
  PackedShard shard;
  for (const PackedEntry &entry : entries) {
    if (!entry.form) {
      const TestTensor &plain = entry.plain;
      shard.add_plain(entry.name, plain.type, plain.shape, plain.data);
    } else if (*entry.form == PackedForm::kMatrix) {
      shard.add_matrix(entry.name, entry.parts[0]);
    } else if (*entry.form == PackedForm::kExpert) {
      shard.add_expert(entry.name, entry.parts);
    } else {
      shard.add_heads(entry.name, entry.parts);
    }
  }
  return shard;
}

void PackedModel::write(const TempFolder &folder) const {
  folder.write("config.json", tiny.config_text());
  folder.write("model.safetensors", shard().file());
}

TinyModel make_plain(const PackedModel &model) {
  TinyModel plain = model.tiny;
  plain.tensors.clear();
  const auto add = [&](const std::string &name, uint64_t rows, uint64_t columns,
                       const std::vector<float> &weights) {
    plain.tensors.push_back({name, "F32", {rows, columns}, float_bytes(weights)});
  };
  for (const PackedEntry &entry : model.entries) {
    if (!entry.form) {
      plain.tensors.push_back(entry.plain);
    } else if (*entry.form == PackedForm::kHeads) {
      const std::vector<float> rows = join_heads(entry.parts);
      add(entry.name, rows.size() / kLatent, kLatent, rows);
    } else {
      for (size_t part = 0; part < entry.parts.size(); ++part) {
        constexpr const char *kSuffixes[] = {".gate_proj.weight", ".up_proj.weight",
                                             ".down_proj.weight"};
        const MadeMatrix &made = entry.parts[part];
        add(entry.name + (*entry.form == PackedForm::kExpert ? kSuffixes[part] : ""),
            made.layout.columns, made.layout.depth, made.weights);
      }
    }
  }
  return plain;
}

}  // namespace colibri::test
