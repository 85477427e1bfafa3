// SPDX-License-Identifier: Apache-2.0
//
// What the tests of packed snapshots share: a plan with a tensor of every form, contents for it,
// and folders read back.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/convert/packed_writer.h"
#include "tests/support/expect_failure.h"

namespace colibri::test {

WeightLayout int4_layout(uint32_t columns, uint32_t depth, uint32_t group);
WeightLayout int8_layout(uint32_t columns, uint32_t depth, uint32_t group);

OutputTensor packed_tensor(const std::string &name, PackedForm form,
                           const std::vector<WeightLayout> &parts, uint32_t n_heads = 1);
OutputTensor plain_tensor(const std::string &name, const std::string &type_name,
                          const std::vector<uint64_t> &shape);

// Eight experts, a matrix, heads, and plain tensors (one without elements); two side files. A shard
// holds few of them.
PackedWriterPlan make_plan(const std::string &destination);

// Bytes of a tensor: the same for the same name and size.
std::vector<uint8_t> content_of(const OutputTensor &tensor);

// Appends and finishes one tensor, in pieces of `piece` bytes.
void write_tensor(PackedWriter *writer, size_t tensor, size_t piece = 10'000);
// All that are not done.
void write_rest(PackedWriter *writer);

// Names and contents of all files of a folder.
std::map<std::string, std::string> read_folder(const std::string &path);

// Flips one bit of a file.
void flip_bit(const std::string &path, uint64_t offset);

// Runs `body` in a forked child that ends without destructors when body returns; the child's exit
// status.
int run_in_child(const std::function<void()> &body);

}  // namespace colibri::test
