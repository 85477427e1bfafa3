// SPDX-License-Identifier: Apache-2.0
//
// The checksum that a header carries of itself, and that a damaged one is not opened.

#include "lib/snapshot/header_seal.h"

#include <string>

#include "lib/base/status.h"
#include "lib/snapshot/tensor_index.h"
#include "tests/base/temporary_folder.h"
#include "tests/snapshot/packed_shard.h"
#include "tests/support/catch.h"

using namespace colibri;
using test::PackedShard;

namespace {

std::string open_header() {
  return R"({"__metadata__":{"colibri.header":"0000000000000000","a":"b"},"t":{}}   )";
}

PackedShard small_shard() {
  PackedShard shard;
  shard.add_matrix("a.weight", test::make_packed_matrix(WeightFormat::kInt4, 20, 40, 16));
  shard.add_plain("b.weight", "F32", {2, 3}, std::string(24, '\1'));
  return shard;
}

// The message of the refusal; empty if it opens.
std::string refusal(const std::string &file) {
  const test::TemporaryFolder folder;
  folder.write("model.safetensors", file);
  try {
    TensorIndex::open(folder.path());
  } catch (const Error &error) {
    CHECK(error.status().code() == StatusCode::kFormat);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a sealed header is intact and any changed byte breaks it") {
  std::string header = open_header();
  REQUIRE(check_header_seal(header) == HeaderSeal::kBroken);
  REQUIRE(seal_header(&header));
  REQUIRE(check_header_seal(header) == HeaderSeal::kIntact);
  for (size_t i = 0; i < header.size(); ++i) {
    for (const int bit : {1, 32}) {
      std::string damaged = header;
      damaged[i] = static_cast<char>(static_cast<uint8_t>(damaged[i]) ^ bit);
      INFO(i);
      CHECK(check_header_seal(damaged) != HeaderSeal::kIntact);
    }
  }
  CHECK(check_header_seal(header + " ") == HeaderSeal::kBroken);
}

TEST_CASE("only a header with an open seal is sealed") {
  std::string header = open_header();
  REQUIRE(seal_header(&header));
  CHECK_FALSE(seal_header(&header));
  std::string other = "{}";
  CHECK_FALSE(seal_header(&other));
  CHECK(check_header_seal("{}") == HeaderSeal::kNone);
  CHECK(check_header_seal(R"({"colibri.header":"00)") == HeaderSeal::kNone);
}

TEST_CASE("no bit of a packed shard's header changes without a refusal") {
  const std::string file = small_shard().file();
  REQUIRE(refusal(file).empty());
  const size_t end = file.find("    ");
  for (size_t i = 0; i < end; ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(static_cast<uint8_t>(damaged[i]) ^ (1 << (i % 7)));
    INFO(i);
    CHECK_FALSE(refusal(damaged).empty());
  }
}

TEST_CASE("a packed shard whose header is damaged or not sealed says so") {
  std::string file = small_shard().file();
  const size_t name = file.find("a.weight");
  const size_t key = file.find(kHeaderSealKey);
  std::string unsealed = file;
  unsealed[key] = 'k';
  CHECK(refusal(unsealed).find("carries no checksum of its header") != std::string::npos);
  for (size_t at = name; at != std::string::npos; at = file.find("a.weight", at + 1)) {
    file[at] = 'c';  // everywhere, so that only the checksum can tell
  }
  CHECK(refusal(file).find("header differs from its checksum") != std::string::npos);
}
