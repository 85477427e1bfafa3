// SPDX-License-Identifier: Apache-2.0
//
// TinyModel (tests/snapshot/fixture.h) with weights that mean nothing, and a look into results.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/convert/conversion_options.h"
#include "lib/snapshot/snapshot.h"
#include "tests/convert/stored_matrix.h"
#include "tests/snapshot/fixture.h"

namespace colibri::test {

// Finite weights in all tensors, the same for the same seed.
TinyModel make_random_model(uint32_t seed = 1);

// Takes a matrix of the model to another form (stored_matrix.h); its weights become others.
void store_as(const std::string &form, TinyModel *model, const std::string &name);

// Everything is kept as it is.
ConversionOptions keep_all();

// Bytes of a tensor; it must be there.
std::vector<uint8_t> read_tensor(const TensorIndex &index, const std::string &name);
std::vector<uint8_t> read_span(const TensorIndex &index, const TensorSpan &span);
std::vector<float> read_weights(const Snapshot &snapshot, const WeightSource &source);

// Names and contents of all files of a folder.
std::map<std::string, std::string> read_files(const std::string &path);

}  // namespace colibri::test
