// SPDX-License-Identifier: Apache-2.0
//
// Names of the choices of a layer's mathematics.

#include "lib/base/layer_math.h"

#include <string>

#include "tests/support/catch.h"

using namespace colibri;

TEST_CASE("router kinds and KV types have names") {
  REQUIRE(router_kind_name(RouterKind::kSigmoid) == std::string("sigmoid"));
  REQUIRE(router_kind_name(RouterKind::kSoftmax) == std::string("softmax"));
  REQUIRE(router_kind_name(RouterKind::kSoftmaxOfChosen) == std::string("chosen-softmax"));
  REQUIRE(kv_type_name(KvType::kF32) == std::string("f32"));
  REQUIRE(kv_type_name(KvType::kBF16) == std::string("bf16"));
  REQUIRE(kv_type_name(KvType::kF16) == std::string("f16"));
  REQUIRE(kv_type_bytes(KvType::kF32) == 4);
  REQUIRE(kv_type_bytes(KvType::kF16) == 2);
}
