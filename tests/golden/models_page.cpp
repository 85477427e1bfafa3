// SPDX-License-Identifier: Apache-2.0
//
// Words for the choices of a ModelConfig.

#include "tests/golden/models_page.h"

#include <algorithm>
#include <vector>

#include "lib/snapshot/family.h"
#include "lib/snapshot/snapshot.h"
#include "tests/golden/golden_case.h"

namespace colibri::test {
namespace {

// "deepseek_v3-yarn" belongs to deepseek_v3.
std::vector<std::string> cases_of(const std::string &model_type) {
  std::vector<std::string> cases;
  for (const std::string &name : golden_case_names()) {
    if (name == model_type || name.starts_with(model_type + "-")) cases.push_back(name);
  }
  return cases;
}

std::string describe_attention(const ModelConfig &config) {
  std::string text = config.attention == AttentionKind::kLatent ? "latent" : "grouped";
  if (config.query_key_norm == QueryKeyNorm::kPerHead) text += ", query and key norm per head";
  if (config.query_key_norm == QueryKeyNorm::kWhole) text += ", query and key norm over all heads";
  if (config.has_query_bias) text += ", bias";
  if (config.has_sinks) text += ", sinks";
  const bool slides = std::any_of(config.windows.begin(), config.windows.end(),
                                  [](uint32_t window) { return window != 0; });
  if (slides) text += ", sliding windows";
  if (config.index_top_k != 0) text += ", sparse by indexer";
  return text;
}

std::string describe_rotary(const ModelConfig &config) {
  std::string text = config.rotary.is_interleaved ? "pairs" : "halves";
  if (config.attention == AttentionKind::kGrouped && config.rotary.width < config.head_width) {
    text += ", partial";
  }
  if (config.rotary.scaling == RotaryScaling::kYarn) text += ", YaRN";
  return text;
}

std::string describe_router(const ModelConfig &config) {
  std::string text = router_kind_name(config.router);
  if (config.has_router_bias) text += ", bias";
  if (config.n_groups > 1) text += ", groups";
  if (config.router == RouterKind::kSoftmax && config.normalises_top_k) text += ", normalised";
  return text;
}

std::string describe_experts(const ModelConfig &config) {
  std::string text =
      config.expert_activation.kind == ActivationKind::kSilu ? "SiLU" : "clamped swish";
  if (config.has_expert_bias) text += ", bias";
  if (config.shared_width != 0) text += config.has_shared_gate ? ", gated shared" : ", shared";
  if (config.dense_width != 0) text += ", some layers dense";
  return text;
}

std::string family_row(const Family &family) {
  std::string row = std::string("| `") + family.model_type + "` | " + family.models + " | ";
  const std::vector<std::string> cases = cases_of(family.model_type);
  if (cases.empty()) return row + "not tested | | | |\n";
  const Snapshot snapshot = Snapshot::open(GoldenCase(cases.front()).path());
  const ModelConfig &config = snapshot.config();
  return row + describe_attention(config) + " | " + describe_rotary(config) + " | " +
         describe_router(config) + " | " + describe_experts(config) + " |\n";
}

std::string case_row(const Family &family, const std::string &name) {
  const Snapshot snapshot = Snapshot::open(GoldenCase(name).path());
  std::string formats;
  for (const auto &[format, count] : snapshot.format_histogram()) {
    formats += (formats.empty() ? "" : ", ") + format;
  }
  return std::string("| `") + family.model_type + "` | " + name + " | " + formats + " |\n";
}

}  // namespace

std::string models_page_tables() {
  std::string text = "| `model_type` | models | attention | rotary | router | experts |\n";
  text += "|---|---|---|---|---|---|\n";
  for (const Family *family : families()) text += family_row(*family);
  text += "\n| `model_type` | golden case | stored as |\n|---|---|---|\n";
  for (const Family *family : families()) {
    for (const std::string &name : cases_of(family->model_type)) text += case_row(*family, name);
  }
  return text;
}

}  // namespace colibri::test
