// SPDX-License-Identifier: Apache-2.0
//
// Counters of a model in their public form, for colibri_model_get_stats() and for the model's JSON
// report.

#pragma once

#include "colibri/stats.h"

namespace colibri {

// struct_size is left 0.
colibri_model_stats read_stats(const colibri_model &model) noexcept;

}  // namespace colibri
