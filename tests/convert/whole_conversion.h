// SPDX-License-Identifier: Apache-2.0
//
// One whole conversion: its folders, and a run whose result is verified.

#pragma once

#include <filesystem>
#include <string>

#include "lib/convert/converter.h"
#include "lib/convert/verifier.h"
#include "tests/convert/random_model.h"
#include "tests/support/catch.h"

namespace colibri::test {

// Gone with the object.
struct Folders {
  TempFolder folder;
  std::string source() const { return folder.file("source"); }
  std::string result(const std::string &name = "packed") const { return folder.file(name); }

  void write(const TinyModel &model) const {
    std::filesystem::create_directory(source());
    const TempFolder made;
    model.write(made);
    for (const auto &entry : std::filesystem::directory_iterator(made.path())) {
      std::filesystem::copy_file(entry.path(),
                                 std::filesystem::path(source()) / entry.path().filename(),
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }
};

inline ConversionReport convert_quietly(const std::string &source, const std::string &destination,
                                        const ConversionOptions &options = ConversionOptions()) {
  ConversionReport report = convert_snapshot(source, destination, options);
  CHECK(verify_snapshot(destination, 1, nullptr).damaged.empty());
  return report;
}

}  // namespace colibri::test
