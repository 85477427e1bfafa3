// SPDX-License-Identifier: Apache-2.0
//
// Numbers on the command line: one, a size in bytes, or a list such as "1,2,3". All are read
// strictly, as CLI11 takes a sign before an unsigned number and wraps what is too large. What is
// refused is named with the values that are taken.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace colibri::command {

// Both ends are taken.
struct WholeRange {
  uint64_t least = 0;
  uint64_t most = std::numeric_limits<uint32_t>::max();
};

// Both ends are taken; without `includes_least` only what lies above it.
struct RealRange {
  float least = 0;
  float most = std::numeric_limits<float>::max();
  bool includes_least = true;
};

// Digits only, nothing else. The option may be given once. range.most must fit the target.
CLI::Option *add_whole_number(CLI::App &app, const std::string &option, WholeRange range,
                              uint32_t *number, const std::string &description);
CLI::Option *add_whole_number(CLI::App &app, const std::string &option, WholeRange range,
                              uint64_t *number, const std::string &description);

// A finite decimal number, such as 0.7 or 1e-5.
CLI::Option *add_real_number(CLI::App &app, const std::string &option, RealRange range,
                             float *number, const std::string &description);

// Bytes, at least 1: 1000000, 512M, 1.5G. K, M, G, T and KiB, MiB, GiB, TiB in any case are powers
// of 1024.
CLI::Option *add_size(CLI::App &app, const std::string &option, uint64_t *bytes,
                      const std::string &description);

// A list of at least one number.
CLI::Option *add_number_list(CLI::App &app, const std::string &option, WholeRange range,
                             std::vector<int32_t> *numbers, const std::string &description);

// Adds --ids.
CLI::Option *add_ids_option(CLI::App &app, std::vector<int32_t> *ids,
                            const std::string &description);

// "1,2,3", the form that these options take.
std::string join_numbers(std::span<const int32_t> numbers);

}  // namespace colibri::command
