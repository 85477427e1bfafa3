// SPDX-License-Identifier: Apache-2.0
//
// The experts of one layer as two parallel regions over a flat list of (expert, block of panels)
// tasks.

#pragma once

#include "cpu/cpu_scratch.h"
#include "cpu/kernels.h"
#include "cpu/task_runner.h"
#include "lib/backend/op_args.h"

namespace colibri::cpu {

void run_experts(const KernelSet &kernels, const TaskRunner &runner, const ExpertsArgs &args,
                 CpuScratch &scratch) noexcept;

}  // namespace colibri::cpu
