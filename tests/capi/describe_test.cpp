// SPDX-License-Identifier: Apache-2.0
//
// The JSON reports: outside programs rely on their members. Compared as text, so that no JSON
// library stands between.

#include <string>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

std::string plan_json(const std::string &path, const colibri_model_options &options) {
  return read_text([&](char *buffer, size_t capacity, size_t *length, colibri_error *error) {
    return colibri_model_plan_json(path.c_str(), &options, buffer, capacity, length, error);
  });
}

std::string snapshot_json(const std::string &path) {
  return read_text([&](char *buffer, size_t capacity, size_t *length, colibri_error *error) {
    return colibri_snapshot_describe(path.c_str(), buffer, capacity, length, error);
  });
}

// The number behind the first `"key":` after `from`.
uint64_t number(const std::string &json, const std::string &key, const std::string &from = "{") {
  const size_t start = json.find(from);
  REQUIRE(start != std::string::npos);
  const size_t place = json.find("\"" + key + "\":", start);
  INFO(key << " in " << json);
  REQUIRE(place != std::string::npos);
  return std::stoull(json.substr(place + key.size() + 3));
}

}  // namespace

TEST_CASE("the description of a snapshot has all its members") {
  const std::string json = snapshot_json(tiny_model());
  CHECK_THAT(json, StartsWith("{\"model_type\":\"glm_moe_dsa\",\"identity\":\""));
  CHECK(number(json, "layers") == 8);
  CHECK_THAT(json, Contains("\"config\":{\"architectures\":[\"GlmMoeDsaForCausalLM\"]"));
  CHECK_THAT(json, Contains("\"formats\":{") && Contains("\"int4-packed\":{\"count\":672,"));
  CHECK(number(json, "count", "\"tensors\":") > 672);
  CHECK(number(json, "layers", "\"experts\":{") == 7);
  CHECK(number(json, "per_layer", "\"experts\":{") == 32);
  CHECK(number(json, "per_token", "\"experts\":{") == 4);
  CHECK(number(json, "count", "\"experts\":{") == 7 * 32);
  CHECK(number(json, "bytes", "\"experts\":{") == 7 * 32 * number(json, "largest_bytes"));
  CHECK(number(json, "packed_bytes") >= number(json, "bytes", "\"experts\":{"));
  CHECK_THAT(json, Contains("\"stop_ids\":[2028,2035,2037]") && Contains("\"stop_tokens\":["));
  CHECK_THAT(json, Contains("{\"name\":\"model-00001-of-00001.safetensors\",\"bytes\":9624000}"));
  CHECK(number(json, "ignored_tensors") > 0);  // the MTP layer
  CHECK_THAT(json, Contains("\"warnings\":["));
}

TEST_CASE("counts and bytes of the formats add up") {
  for (const char *name : {"glm_moe_dsa-fp8", "glm_moe_dsa-int8row", "glm_moe_dsa-sparse"}) {
    const std::string json = snapshot_json(golden_model(name));
    CAPTURE(json);
    uint64_t count = 0;
    uint64_t bytes = 0;
    size_t place = json.find("\"formats\":{");
    const size_t end = json.find("}}", place);
    while ((place = json.find("{\"count\":", place)) < end) {
      count += number(json.substr(place), "count");
      bytes += number(json.substr(place), "bytes");
      ++place;
    }
    CHECK(count == number(json, "count", "\"tensors\":"));
    CHECK(bytes == number(json, "bytes", "\"tensors\":"));
  }
}

TEST_CASE("the plan as JSON says what the struct says, and its items add up") {
  const colibri_model_options options = small_options();
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  REQUIRE(colibri_model_plan(tiny_model().c_str(), &options, &plan, nullptr) == COLIBRI_OK);
  const std::string json = plan_json(tiny_model(), options);
  CHECK_THAT(json, StartsWith("{\"feasible\":true,\"budget_bytes\":1073741824,"
                              "\"budget_origin\":\"option\",\"items\":{"));
  CHECK(number(json, "dense") == plan.dense_bytes);
  CHECK(number(json, "kv") == plan.kv_bytes);
  CHECK(number(json, "workspace") == plan.workspace_bytes);
  CHECK(number(json, "staging") == plan.staging_bytes);
  CHECK(number(json, "overhead") == plan.overhead_bytes);
  CHECK(number(json, "experts") == plan.expert_bytes);
  CHECK(number(json, "total_bytes") == plan.total_bytes);
  CHECK(number(json, "minimum_bytes") == plan.minimum_bytes);
  CHECK(number(json, "full_bytes") == plan.full_bytes);
  CHECK(number(json, "kv_bytes_per_token") == plan.kv_bytes_per_token);
  CHECK(number(json, "largest_context_tokens") == plan.largest_context_tokens);
  CHECK(plan.total_bytes == plan.dense_bytes + plan.kv_bytes + plan.workspace_bytes +
                                plan.staging_bytes + plan.overhead_bytes + plan.expert_bytes);
  CHECK(number(json, "experts", "\"ram\":") == 7 * 32);
  CHECK(number(json, "experts", "\"disk\":") == 0);
  CHECK(number(json, "minimum_resident") == 4);
  CHECK_THAT(json, Contains("\"options\":{\"n_slots\":2,\"context_tokens\":64,\"max_rows\":16,") &&
                       Contains("\"activations\":\"int8\",\"kv_type\":\"f32\"}}"));
}

TEST_CASE("the description of a snapshot tells in which parts its model differs from others") {
  const auto describe = [](const std::string &name) {
    return read_text([&](char *buffer, size_t capacity, size_t *length, colibri_error *error) {
      return colibri_snapshot_describe(golden_model(name).c_str(), buffer, capacity, length, error);
    });
  };
  CHECK_THAT(describe("gpt_oss"), Contains("\"attention\":\"grouped\",\"windows\":[16,0,16,0") &&
                                      Contains("\"router\":\"chosen-softmax\""));
  CHECK_THAT(describe("mixtral"), Contains("\"attention\":\"grouped\",\"router\":\"softmax\""));
  CHECK_THAT(describe("deepseek_v32"), Contains("\"attention\":\"latent\",\"router\":\"sigmoid\""));
}

TEST_CASE("the description of an open model tells configuration, plan and counters") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  decode(batch.get(), slot.get(), {1, 2, 3});
  const std::string json =
      read_text([&](char *buffer, size_t capacity, size_t *length, colibri_error *error) {
        return colibri_model_describe(model.get(), buffer, capacity, length, error);
      });
  CHECK_THAT(json, StartsWith("{\"version\":\"" + std::string(colibri_version()) +
                              "\",\"snapshot\":{\"model_type\":"));
  CHECK_THAT(json, Contains("\"plan\":{\"feasible\":true") && Contains("\"has_tokenizer\":true"));
  CHECK_THAT(json, Contains("\"latent_norm_eps\":1e-06"));
  CHECK(number(json, "n_slots_in_use") == 1);
  CHECK(number(json, "n_engines_in_use") == 1);
  CHECK(number(json, "n_passes") == 1);
  CHECK(number(json, "n_rows") == 3);
}

TEST_CASE("a text buffer that is too small is left alone and the length is given") {
  const std::string path = tiny_model();
  size_t length = 0;
  REQUIRE(colibri_snapshot_describe(path.c_str(), nullptr, 0, &length, nullptr) == COLIBRI_OK);
  std::string buffer(length + 1, '#');
  size_t again = 0;
  CHECK(colibri_snapshot_describe(path.c_str(), buffer.data(), length, &again, nullptr) ==
        COLIBRI_E_CAPACITY);
  CHECK(again == length);
  CHECK(buffer == std::string(length + 1, '#'));
  CHECK(colibri_snapshot_describe(path.c_str(), buffer.data(), length + 1, nullptr, nullptr) ==
        COLIBRI_OK);
  CHECK(buffer.back() == '\0');
}
