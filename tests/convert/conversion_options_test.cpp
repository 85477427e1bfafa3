// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/conversion_options.h"

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {

TEST_CASE("options that no conversion can do are refused with what is taken") {
  ConversionOptions options;
  check_options(options);
  options.experts = TargetFormat::kBF16;
  expect_failure(StatusCode::kArgument, {"experts is bf16", "int4, int8, or keep"},
                 [&] { check_options(options); });
  options = ConversionOptions();
  options.embedding = TargetFormat::kInt4;
  expect_failure(StatusCode::kArgument, {"embedding is int4"}, [&] { check_options(options); });
  options = ConversionOptions();
  options.head = TargetFormat::kInt4;
  expect_failure(StatusCode::kArgument, {"head is int4"}, [&] { check_options(options); });
  for (const uint32_t group : {0u, 16u, 96u, 256u}) {
    options = ConversionOptions();
    options.group = group;
    expect_failure(StatusCode::kArgument, {"group is", "32, 64 or 128"},
                   [&] { check_options(options); });
  }
}

TEST_CASE("options are described by the names of the command line") {
  ConversionOptions options;
  CHECK((describe_options(options) == PackedOptions{"int4", "int8", "keep", "keep", 64, "search"}));
  options.experts = TargetFormat::kKeep;
  options.dense = TargetFormat::kBF16;
  options.search = ScaleSearch::kAbsmax;
  options.group = 32;
  CHECK((describe_options(options) == PackedOptions{"keep", "bf16", "keep", "keep", 32, "absmax"}));
}

}  // namespace colibri::test
