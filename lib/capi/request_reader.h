// SPDX-License-Identifier: Apache-2.0
//
// The caller's request and scheduler options, checked and copied into the runtime's own form.
// Counts are checked before the arrays behind them are read.

#pragma once

#include "colibri/scheduler.h"
#include "lib/capi/open_model.h"
#include "lib/runtime/scheduler.h"

namespace colibri {

// Throws Error(kArgument), or kCapacity if no slot is free.
SchedulerOptions read_scheduler_options(const colibri_scheduler_options *options,
                                        const OpenModel &open);

// Throws Error: kArgument with field, value and range; kContext for a prompt that no slot can hold.
RequestOptions read_request(const colibri_request_options *options, const OpenModel &open);

}  // namespace colibri
