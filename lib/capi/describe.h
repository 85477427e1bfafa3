// SPDX-License-Identifier: Apache-2.0
//
// The JSON reports of the public API. Members and their order are stated in
// include/colibri/model.h.

#pragma once

#include <string>

#include "colibri/stats.h"
#include "lib/capi/open_model.h"
#include "lib/capi/planned_model.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

std::string describe_snapshot(const Snapshot &snapshot);
std::string describe_plan(const PlannedModel &planned);
std::string describe_model(const OpenModel &open, const colibri_model_stats &stats);

}  // namespace colibri
