// SPDX-License-Identifier: Apache-2.0
//
// The subcommands. Each adds itself to the command line; if it is the chosen one, it puts what is
// to be run into *run, which returns the exit code.

#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace colibri::command {

using Run = std::function<int()>;

void add_generate(CLI::App &app, Run *run);
void add_chat(CLI::App &app, Run *run);
void add_inspect(CLI::App &app, Run *run);
void add_plan(CLI::App &app, Run *run);
void add_tokenize(CLI::App &app, Run *run);
void add_detokenize(CLI::App &app, Run *run);
void add_logits(CLI::App &app, Run *run);
void add_perplexity(CLI::App &app, Run *run);
void add_bench(CLI::App &app, Run *run);
void add_convert(CLI::App &app, Run *run);
void add_verify(CLI::App &app, Run *run);

}  // namespace colibri::command
