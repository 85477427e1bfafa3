// SPDX-License-Identifier: Apache-2.0
//
// Forms are told apart by names, parts of fused tensors by their order; shapes and types are checked
// where the parts are found (fused_source.cpp).

#include "lib/snapshot/expert_sources.h"

#include "lib/snapshot/packed_source.h"
#include "lib/snapshot/printable.h"
#include "lib/snapshot/tensor_rules.h"

namespace colibri {
namespace {

bool is_fused(ExpertForm form) {
  return form == ExpertForm::kFused || form == ExpertForm::kFusedMxFp4;
}

// The form of which the tensor is a part; kAbsent for biases, which two forms share.
ExpertForm form_of(const NameTable &names, std::string_view name, const TensorPlace &place) {
  if (place.expert) return ExpertForm::kSeparate;
  if (!place.is_fused) return ExpertForm::kAbsent;
  const auto ends_with = [&](std::string_view end) { return name.ends_with(end); };
  if (ends_with(kMxFp4Blocks) || ends_with(kMxFp4Scales)) return ExpertForm::kFusedMxFp4;
  if (ends_with(names.fused_gate_up) || ends_with(names.fused_down)) return ExpertForm::kFused;
  return ExpertForm::kAbsent;
}

ExpertSource resolve_own(const TensorIndex &index, const ModelConfig &config,
                         const NameTable &names, uint32_t layer, uint32_t expert) {
  const std::string name = expert_name(names, layer, expert);
  const bool is_packed = index.packed_layout(name) != nullptr;
  ExpertSource source;
  for (const ExpertRule &rule : expert_rules()) {
    const std::string matrix = expert_matrix_name(names, layer, expert, rule);
    if (!is_packed) {
      source.*rule.field = find_matrix(index, matrix, rule.rows(config), rule.columns(config));
    } else if (index.find(matrix) != nullptr) {
      throw_error(StatusCode::kFormat,
                  "expert %u of layer %u is there twice: packed as %s, and as separate matrices "
                  "(%s)",
                  expert, layer, name.c_str(), matrix.c_str());
    }
  }
  if (!is_packed && config.has_expert_bias) {
    throw_error(StatusCode::kUnsupported,
                "the experts of layer %u stand in tensors of their own (%s), but those of %s have "
                "biases, which are read from tensors of all experts only",
                layer, name.c_str(), config.model_type.c_str());
  }
  if (!is_packed) return source;
  source = find_packed_expert(index, name, config.expert_width, config.width);
  if (source.gate_bias.is_present() == config.has_expert_bias) return source;
  throw_error(StatusCode::kFormat, "tensor %s is packed %s biases, but the config implies %s",
              name.c_str(), config.has_expert_bias ? "without" : "with",
              config.has_expert_bias ? "them" : "none");
}

// The parts of the fused tensors of one layer.
class FusedLayer {
 public:
  FusedLayer(const TensorIndex &index, const ModelConfig &config, const NameTable &names,
             uint32_t layer, ExpertForm form)
      : index_(index),
        config_(config),
        names_(names),
        prefix_(layer_prefix(layer)),
        alternates_(names.fused_order == FusedOrder::kAlternating),
        is_transposed_(alternates_ && form == ExpertForm::kFused) {}

  ExpertSource resolve(uint32_t expert) const {
    ExpertSource source;
    source.gate = find_fused_matrix(index_, gate_or_up(expert, 0, config_.width));
    source.up = find_fused_matrix(index_, gate_or_up(expert, 1, config_.width));
    source.down = find_fused_matrix(index_, down(expert, config_.expert_width));
    if (!config_.has_expert_bias) return source;
    const auto bias = [&](FusedPart part, const char *name) {
      part.name = prefix_ + name;
      return find_fused_vector(index_, part);
    };
    source.gate_bias = bias(gate_or_up(expert, 0, 1), names_.fused_gate_up_bias);
    source.up_bias = bias(gate_or_up(expert, 1, 1), names_.fused_gate_up_bias);
    source.down_bias = bias(down(expert, 1), names_.fused_down_bias);
    return source;
  }

 private:
  // Gate (0) or up (1).
  FusedPart gate_or_up(uint32_t expert, uint64_t number, uint64_t columns) const {
    FusedPart part;
    part.name = prefix_ + names_.fused_gate_up;
    part.n_experts = config_.n_experts;
    part.expert = expert;
    part.rows = config_.expert_width;
    part.stored_rows = 2 * part.rows;
    part.columns = columns;
    // bounded: 0 or 1 times a width of the config
    part.first_row = alternates_ ? number : number * part.rows;
    part.row_step = alternates_ ? 2 : 1;
    part.is_transposed = is_transposed_;
    return part;
  }

  FusedPart down(uint32_t expert, uint64_t columns) const {
    FusedPart part;
    part.name = prefix_ + names_.fused_down;
    part.n_experts = config_.n_experts;
    part.expert = expert;
    part.rows = part.stored_rows = config_.width;
    part.columns = columns;
    part.is_transposed = is_transposed_;
    return part;
  }

  const TensorIndex &index_;
  const ModelConfig &config_;
  const NameTable &names_;
  const std::string prefix_;
  const bool alternates_;
  const bool is_transposed_;
};

}  // namespace

const char *expert_form_name(ExpertForm form) noexcept {
  switch (form) {
    case ExpertForm::kSeparate:
      return "separate";
    case ExpertForm::kFused:
      return "fused";
    case ExpertForm::kFusedMxFp4:
      return "fused-mxfp4";
    case ExpertForm::kPacked:
      return "packed";
    case ExpertForm::kAbsent:
      return "absent";
  }
  return "unknown";
}

std::vector<ExpertForm> find_expert_forms(const TensorIndex &index, const ModelConfig &config,
                                          const NameTable &names) {
  std::vector<ExpertForm> forms(config.n_layers, ExpertForm::kAbsent);
  std::vector<std::string_view> examples(config.n_layers);
  for (const std::string_view name : index.names()) {
    const auto place = parse_tensor_name(names, name);
    if (!place || place->layer >= config.n_layers) continue;
    const ExpertForm form = form_of(names, name, *place);
    ExpertForm &known = forms[place->layer];
    if (form == ExpertForm::kAbsent || form == known) continue;
    if (known != ExpertForm::kAbsent) {
      throw_error(StatusCode::kFormat, "layer %u has its experts in two forms: %s is %s, %s is %s",
                  place->layer, printable(examples[place->layer], 60).c_str(),
                  expert_form_name(known), printable(name, 60).c_str(), expert_form_name(form));
    }
    known = form;
    examples[place->layer] = name;
  }
  if (!index.is_packed()) return forms;
  for (ExpertForm &form : forms) {
    if (form == ExpertForm::kSeparate) form = ExpertForm::kPacked;
  }
  return forms;
}

std::vector<std::string> needed_fused_tensors(const ModelConfig &config, const NameTable &names,
                                              uint32_t layer, ExpertForm form) {
  const std::string prefix = layer_prefix(layer);
  std::vector<std::string> needed;
  for (const char *matrix : {names.fused_gate_up, names.fused_down}) {
    if (form == ExpertForm::kFused) {
      needed.push_back(prefix + matrix);
    } else {
      for (const char *part : {kMxFp4Blocks, kMxFp4Scales})
        needed.push_back(prefix + matrix + part);
    }
  }
  if (config.has_expert_bias) {
    needed.push_back(prefix + names.fused_gate_up_bias);
    needed.push_back(prefix + names.fused_down_bias);
  }
  return needed;
}

std::vector<ExpertSource> resolve_experts(const TensorIndex &index, const ModelConfig &config,
                                          const NameTable &names, uint32_t layer, ExpertForm form) {
  const uint32_t n_experts = count_experts(config, layer);
  const FusedLayer fused(index, config, names, layer, form);
  std::vector<ExpertSource> experts;
  experts.reserve(n_experts);
  for (uint32_t expert = 0; expert < n_experts; ++expert) {
    experts.push_back(is_fused(form) ? fused.resolve(expert)
                                     : resolve_own(index, config, names, layer, expert));
  }
  return experts;
}

}  // namespace colibri
