// SPDX-License-Identifier: Apache-2.0
//
// The measurements of colibri bench. Each adds its subcommand to `bench`.

#pragma once

#include <CLI/CLI.hpp>

#include "examples/colibri/commands.h"

namespace colibri::command {

void add_bench_kernels(CLI::App &bench, Run *run);

}  // namespace colibri::command
