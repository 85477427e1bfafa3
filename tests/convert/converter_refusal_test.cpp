// SPDX-License-Identifier: Apache-2.0
//
// What stops a whole conversion, and what it says then.

#include "lib/convert/converter.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>

#include "lib/convert/partial_folder.h"
#include "tests/convert/random_model.h"
#include "tests/convert/whole_conversion.h"
#include "tests/support/catch.h"
#include "tests/support/small_disk.h"

namespace colibri::test {
namespace fs = std::filesystem;

TEST_CASE("NaN and infinity in any weight that the model uses are refused by name and place") {
  const std::string infinity = float_bytes({std::numeric_limits<float>::infinity()});
  const std::string nan = "\xc0\x7f";  // of BF16
  struct Case {
    const char *tensor;
    const char *form;  // nullptr: as it is
    const char *part;  // of the name of the tensor that is spoilt
    size_t at;
    std::string bytes;
    const char *place;
  };
  const std::vector<Case> cases = {
      {"model.layers.1.mlp.experts.2.up_proj.weight", nullptr, "", 2 * (16 * 3 + 9), nan,
       "row 3, column 9"},
      {"model.layers.0.self_attn.o_proj.weight", nullptr, "", 2 * (10 * 15 + 1), nan,
       "row 15, column 1"},
      {"model.layers.0.self_attn.kv_b_proj.weight", nullptr, "", 2 * (8 * 21 + 7), nan,
       "row 21, column 7"},
      {"model.embed_tokens.weight", nullptr, "", 2 * (16 * 31), nan, "row 31, column 0"},
      {"model.norm.weight", nullptr, "", 2 * 15, nan, "row 0, column 15"},
      {"model.layers.1.mlp.gate.weight", nullptr, "", 2 * 17, nan, "row 1, column 1"},
      {"model.layers.1.mlp.gate.e_score_correction_bias", nullptr, "", 4, infinity, "column 1"},
      {"model.layers.0.mlp.up_proj.weight", "F8", "", 16 * 2 + 5, "\xff", "row 2, column 5"},
      {"model.layers.0.mlp.up_proj.weight", "F8", "_scale_inv", 0, infinity, "row 0, column 0"},
      {"model.layers.0.mlp.up_proj.weight", "INT8", ".qs", 4 * 11, infinity, "row 11, column 0"},
      {"model.layers.1.mlp.experts.2.up_proj.weight", "INT4 16", ".qs", 4 * 5, infinity,
       "row 5, column 0"}};
  for (const Case &fault : cases) {
    INFO(fault.tensor << fault.part);
    TinyModel model = make_random_model();
    if (fault.form != nullptr) store_as(fault.form, &model, fault.tensor);
    model.find(fault.tensor + std::string(fault.part))
        .data.replace(fault.at, fault.bytes.size(), fault.bytes);
    const Folders folders;
    folders.write(model);
    expect_failure(StatusCode::kNonFinite, {fault.tensor, fault.place},
                   [&] { convert_snapshot(folders.source(), folders.result(), {}); });
    CHECK_FALSE(fs::exists(folders.result()));
    CHECK(fs::exists(partial_directory(folders.result())));
  }
}

TEST_CASE("NaN is refused in a tensor that the model does not use as well") {
  TinyModel model = make_random_model();
  model.tensors.push_back({"model.layers.3.eh_proj.weight", "BF16", {1, 1}, "\xc0\x7f"});
  const Folders folders;
  folders.write(model);
  expect_failure(StatusCode::kNonFinite, {"model.layers.3.eh_proj.weight", "row 0, column 0"},
                 [&] { convert_snapshot(folders.source(), folders.result(), {}); });
}

TEST_CASE("a source that changed since the conversion was begun is refused") {
  const Folders folders;
  folders.write(make_random_model());
  const std::string shard = folders.source() + "/model.safetensors";
  ConversionOptions options;
  options.progress = [](uint64_t done_bytes, uint64_t) { return done_bytes == 0; };
  const auto begin = [&](const std::string &result) {
    expect_failure(StatusCode::kCancelled, {"resume"},
                   [&] { convert_snapshot(folders.source(), result, options); });
  };
  ConversionOptions resumed;
  resumed.resumes = true;
  const auto time = fs::last_write_time(shard);

  begin(folders.result("a"));  // other weights in place, at another time
  fs::last_write_time(shard, time + std::chrono::seconds(1));
  expect_failure(StatusCode::kMismatch, {"the source has changed", "remove the folder"},
                 [&] { convert_snapshot(folders.source(), folders.result("a"), resumed); });

  begin(folders.result("b"));  // another config.json beside the same weights
  const TempFolder made;
  TinyModel other = make_random_model();
  other.config["rope_theta"] = "20000";
  other.write(made);
  fs::copy_file(made.file("config.json"), folders.source() + "/config.json",
                fs::copy_options::overwrite_existing);
  expect_failure(StatusCode::kMismatch, {"config.json"},
                 [&] { convert_snapshot(folders.source(), folders.result("b"), resumed); });
}

TEST_CASE(
    "a source that is written to while it is converted is noticed before the result appears") {
  const Folders folders;
  folders.write(make_random_model());
  const std::string shard = folders.source() + "/model.safetensors";
  ConversionOptions options;
  options.progress = [&](uint64_t, uint64_t) {
    fs::last_write_time(shard, fs::last_write_time(shard) + std::chrono::seconds(1));
    return true;
  };
  expect_failure(StatusCode::kMismatch, {"written to while they were converted"},
                 [&] { convert_snapshot(folders.source(), folders.result(), options); });
  CHECK_FALSE(fs::exists(folders.result()));
}

TEST_CASE(
    "packed sources, places inside the source, and places that cannot be written are refused") {
  const Folders folders;
  folders.write(make_random_model());
  convert_quietly(folders.source(), folders.result());
  expect_failure(StatusCode::kUnsupported, {"is a packed snapshot already"},
                 [&] { convert_snapshot(folders.result(), folders.result("again"), {}); });
  expect_failure(StatusCode::kArgument, {"lies in the source folder"},
                 [&] { convert_snapshot(folders.source(), folders.source() + "/packed", {}); });
  fs::create_directory_symlink(folders.source(), folders.result("link") + ".partial");
  ConversionOptions resume;
  resume.resumes = true;
  expect_failure(StatusCode::kArgument, {"link.partial", "lies in the source folder"},
                 [&] { convert_snapshot(folders.source(), folders.result("link"), resume); });
  expect_failure(StatusCode::kArgument, {"exists already"},
                 [&] { convert_snapshot(folders.source(), folders.result(), {}); });
  expect_failure(StatusCode::kIo, {"/proc"},
                 [&] { convert_snapshot(folders.source(), "/proc/packed", {}); });
  CHECK(read_files(folders.source()).size() == 2);
}

TEST_CASE("a disk that is too small is said so with both numbers before anything is written") {
  const Folders folders;
  folders.write(make_random_model());
  fs::create_directory(folders.result("disk"));
  const auto said = run_on_small_disk(folders.result("disk"), 64 << 10, [&]() -> std::string {
    try {
      convert_snapshot(folders.source(), folders.result("disk/packed"), {});
    } catch (const Error &error) {
      return error.status().code() == StatusCode::kIo ? error.what() : "another code";
    }
    return "done";
  });
  if (!said) return;  // this system lets nobody mount
  INFO(*said);
  CHECK(said->find("the disk is too small") != std::string::npos);
  CHECK(said->find("65536 are free") != std::string::npos);
}

}  // namespace colibri::test
