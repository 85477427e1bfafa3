// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/convert.h: random snapshots for measuring.

#include <cmath>

#include "colibri/convert.h"
#include "lib/capi/guard.h"
#include "lib/capi/long_call.h"
#include "lib/capi/option_checks.h"
#include "lib/capi/out_buffers.h"
#include "lib/capi/sized_struct.h"
#include "lib/convert/synthesis.h"

namespace colibri {
namespace {

constexpr const char *kDefaultShape = "qwen3-30b";
constexpr uint32_t kDefaultLayers = 4;
constexpr double kDefaultRepeat = 0.4;
constexpr uint64_t kDefaultSeed = 1;

// A float of the caller stands for a short decimal number, which messages and config.json show.
double to_decimal(float value) {
  constexpr double kDigits = 1e6;
  return std::round(static_cast<double>(value) * kDigits) / kDigits;
}

// Ranges are checked by synthesise_snapshot().
SynthesisOptions read_synthesis_options(const colibri_synthesis_options *given) {
  const colibri_synthesis_options options = read_struct(given, "options");
  SynthesisOptions result;
  result.shape = options.shape != nullptr ? options.shape : kDefaultShape;
  result.n_layers = options.n_layers != 0 ? options.n_layers : kDefaultLayers;
  result.skew = to_decimal(options.skew);
  result.repeat = options.repeat != 0.0f ? to_decimal(options.repeat) : kDefaultRepeat;
  result.seed = options.seed != 0 ? options.seed : kDefaultSeed;
  result.n_threads = read_n_threads(options.n_threads);
  require_zero("reserved", options.reserved);
  result.progress = make_progress(options.progress, options.progress_user);
  return result;
}

}  // namespace
}  // namespace colibri

void colibri_synthesis_options_init(colibri_synthesis_options *options, size_t struct_size) {
  colibri::fill_defaults(options, struct_size);
}

colibri_status colibri_snapshot_synthesise(const char *destination,
                                           const colibri_synthesis_options *options,
                                           colibri_error *error) {
  return colibri::guard_computing(error, [&] {
    colibri::require_pointer(destination, "destination");
    colibri::synthesise_snapshot(destination, colibri::read_synthesis_options(options));
  });
}
