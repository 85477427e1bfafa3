// SPDX-License-Identifier: Apache-2.0
//
// Family: all that the library knows of one model_type, as a row of a table. A family that
// recombines known parts is a function and a row in families_latent.cpp or families_grouped.cpp and
// nothing elsewhere (docs/adding-a-family.md). docs/models.md is printed from this table.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/snapshot/config_reader.h"
#include "lib/snapshot/model_config.h"

namespace colibri {

// How the experts of a layer stand in a tensor that holds all of them.
enum class FusedOrder : uint8_t {
  // gate_up [E, 2F, D], rows 0 .. F-1 gate and F .. 2F-1 up; down [E, D, F].
  kHalves,
  // Gate and up alternate, gate first. Plain: gate_up [E, D, 2F] and down [E, F, D], inputs first.
  // MXFP4: gate_up_blocks [E, 2F, D/32, 16] and down_blocks [E, D, F/32, 16], outputs first, with
  // _scales [E, .., ../32]. Biases [E, 2F] and [E, D] in either case.
  kAlternating,
};

// The names in which families differ; all others stand in tensor_rules.cpp. Names of a layer are
// what follows "model.layers.7.". Defaults are the most common ones. Static storage.
struct NameTable {
  const char *router = "mlp.gate.weight";
  const char *router_bias = "mlp.router.bias";
  const char *selection_bias = "mlp.gate.e_score_correction_bias";
  const char *shared_gate_matrix = "mlp.shared_experts.gate_proj.weight";
  const char *shared_up_matrix = "mlp.shared_experts.up_proj.weight";
  const char *shared_down_matrix = "mlp.shared_experts.down_proj.weight";
  const char *shared_gate = "mlp.shared_expert_gate.weight";  // [1, D]
  // One tensor per expert and matrix: experts, id, dot, matrix.
  const char *experts = "mlp.experts.";
  const char *expert_gate = "gate_proj.weight";
  const char *expert_up = "up_proj.weight";
  const char *expert_down = "down_proj.weight";
  // One tensor for all experts of a layer. MXFP4 has _blocks and _scales behind the first two.
  const char *fused_gate_up = "mlp.experts.gate_up_proj";
  const char *fused_down = "mlp.experts.down_proj";
  const char *fused_gate_up_bias = "mlp.experts.gate_up_proj_bias";
  const char *fused_down_bias = "mlp.experts.down_proj_bias";
  FusedOrder fused_order = FusedOrder::kHalves;
};

struct Family {
  const char *model_type;  // of config.json
  const char *models;      // published models, for docs: "Mixtral 8x7B, 8x22B"
  // Fills everything but model_type and stop_ids. Throws as parse_model_config().
  ModelConfig (*parse)(const ConfigReader &reader);
  // Spellings of names that files of this family have, the usual one first. One table serves a
  // whole snapshot.
  std::span<const NameTable> names;
  // What a reader of docs should know, one sentence each; nullptr or a text.
  const char *note;
};

// All families in the order of docs/models.md.
std::vector<const Family *> families();
// nullptr if there is none.
const Family *find_family(std::string_view model_type) noexcept;
// "deepseek_v3, deepseek_v32, ..": for messages.
std::string supported_model_types();

// The rows of each file; family.cpp joins them.
std::span<const Family> latent_families() noexcept;   // families_latent.cpp
std::span<const Family> grouped_families() noexcept;  // families_grouped.cpp

}  // namespace colibri
