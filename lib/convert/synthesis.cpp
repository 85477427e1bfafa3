// SPDX-License-Identifier: Apache-2.0
//
// config.json holds everything that decides the bytes, so its hash is what a writer that goes on is
// bound to.

#include "lib/convert/synthesis.h"

#include "lib/base/file.h"
#include "lib/convert/packed_writer.h"
#include "lib/convert/partial_folder.h"
#include "lib/convert/synthesis_shapes.h"
#include "lib/convert/tensor_synthesis.h"
#include "lib/snapshot/hash.h"

namespace colibri {
namespace {

constexpr uint32_t kMostLayers = 1000;
constexpr double kMostSkew = 2.0;

void check_options(const SynthesisOptions &options) {
  if (options.n_layers < 1 || options.n_layers > kMostLayers) {
    throw_error(StatusCode::kArgument, "n_layers is %u; must be 1..%u", options.n_layers,
                kMostLayers);
  }
  if (!(options.skew >= 0.0 && options.skew <= kMostSkew)) {
    throw_error(StatusCode::kArgument, "skew is %g; must be 0..%g", options.skew, kMostSkew);
  }
  if (!(options.repeat >= 0.0 && options.repeat <= 1.0)) {
    throw_error(StatusCode::kArgument, "repeat is %g; must be 0..1", options.repeat);
  }
}

PackedWriterPlan finish_plan(PackedWriterPlan plan, const std::string &destination,
                             const std::string &config_text) {
  plan.destination = destination;
  plan.source_identity = hash_bytes(config_text, 0);
  plan.files.emplace_back("config.json",
                          std::vector<uint8_t>(config_text.begin(), config_text.end()));
  return plan;
}

class Progress {
 public:
  Progress(const SynthesisOptions &options, const PackedWriter &writer)
      : options_(options), writer_(writer) {}

  void report(uint64_t done_bytes) const {
    const uint64_t total_bytes = 2 * writer_.total_bytes();
    if (!options_.progress || options_.progress(done_bytes, total_bytes)) return;
    throw_error(StatusCode::kCancelled,
                "stopped at %llu of %llu bytes; the same call goes on with '%s', or remove that "
                "folder",
                static_cast<unsigned long long>(done_bytes),
                static_cast<unsigned long long>(total_bytes),
                partial_directory(writer_.plan().destination).c_str());
  }

 private:
  const SynthesisOptions &options_;
  const PackedWriter &writer_;
};

}  // namespace

void synthesise_snapshot(const std::string &destination, const SynthesisOptions &options) {
  check_options(options);
  const std::string config_text =
      synthesis_config_text(find_synthesis_shape(options.shape),
                            {options.n_layers, options.skew, options.repeat, options.seed});
  const ModelConfig config = synthesis_config(config_text);
  const RoutingDesign design =
      design_routing({config.n_experts, config.n_experts_per_token}, options.skew, options.repeat);
  SynthesisPlan plan = plan_synthesis(config);
  ThreadPool threads(options.n_threads);
  TensorSynthesis synthesis(config, design, options.seed, threads);

  PackedWriter writer(finish_plan(std::move(plan.output), destination, config_text),
                      is_named(partial_directory(destination)));
  const Progress progress(options, writer);
  progress.report(writer.done_bytes());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (writer.is_done(i)) continue;
    synthesis.stream(writer.plan().tensors[i], plan.steps[i], [&](std::span<const uint8_t> bytes) {
      writer.append(i, bytes);
      progress.report(writer.done_bytes());
    });
    writer.finish_tensor(i);
  }
  writer.publish([&](uint64_t done_bytes, uint64_t total_bytes) {
    progress.report(total_bytes + done_bytes);
    return true;
  });
}

}  // namespace colibri
