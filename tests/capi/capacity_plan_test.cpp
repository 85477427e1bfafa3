// SPDX-License-Identifier: Apache-2.0
//
// The capacity plan: what it grows with, what it refuses, and that opening does what it says.

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

colibri_plan plan_of(const std::string &path, const colibri_model_options &options) {
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  colibri_error error = COLIBRI_ERROR_INIT;
  const colibri_status status = colibri_model_plan(path.c_str(), &options, &plan, &error);
  INFO(error.message);
  REQUIRE(status == COLIBRI_OK);
  return plan;
}

colibri_status open_status(const std::string &path, const colibri_model_options &options,
                           colibri_error *error) {
  colibri_model *model = nullptr;
  const colibri_status status = colibri_model_open(path.c_str(), &options, &model, error);
  if (model != nullptr) CHECK(colibri_model_close(model, nullptr) == COLIBRI_OK);
  return status;
}

}  // namespace

TEST_CASE("the minimum of the plan opens and one byte less does not") {
  colibri_model_options options = small_options();
  const colibri_plan plan = plan_of(tiny_model(), options);
  options.ram_budget_bytes = plan.minimum_bytes;
  CHECK(plan_of(tiny_model(), options).is_feasible == 1);
  {
    const Model model = open_model(tiny_model(), options);
    const Scheduler scheduler = make_scheduler(model.get());
    CHECK(generate(scheduler.get(), {1, 2, 3, 4, 5}, 4).tokens.size() == 4);
  }
  options.ram_budget_bytes = plan.minimum_bytes - 1;
  CHECK(plan_of(tiny_model(), options).is_feasible == 0);
  const std::string message = message_of(COLIBRI_E_BUDGET, [&](colibri_error *error) {
    return open_status(tiny_model(), options, error);
  });
  CHECK_THAT(message, Contains(std::to_string(plan.minimum_bytes)) &&
                          Contains(std::to_string(plan.minimum_bytes - 1)) &&
                          Contains("largest context_tokens that fits: 63"));
}

TEST_CASE("a budget below everything is refused and no context fits it") {
  colibri_model_options options = small_options();
  options.ram_budget_bytes = 1;
  const colibri_plan plan = plan_of(tiny_model(), options);
  CHECK(plan.is_feasible == 0);
  CHECK(plan.expert_bytes == 0);
  CHECK(plan.largest_context_tokens == 0);
  message_of(COLIBRI_E_BUDGET,
             [&](colibri_error *error) { return open_status(tiny_model(), options, error); });
}

TEST_CASE("the largest context of the plan fits and the next one does not") {
  colibri_model_options options = small_options();
  const std::string path = golden_model("glm_moe_dsa-int4g64");
  options.ram_budget_bytes = plan_of(path, options).minimum_bytes + (uint64_t{100} << 20);
  const colibri_plan plan = plan_of(path, options);
  REQUIRE(plan.largest_context_tokens > 64);
  REQUIRE(plan.largest_context_tokens < 202752);
  options.context_tokens = static_cast<uint32_t>(plan.largest_context_tokens);
  CHECK(plan_of(path, options).is_feasible == 1);
  ++options.context_tokens;
  CHECK(plan_of(path, options).is_feasible == 0);
}

TEST_CASE("experts get what the other parts leave, and never more than there are") {
  colibri_model_options options = small_options();
  const colibri_plan all = plan_of(tiny_model(), options);
  CHECK(all.expert_bytes == all.all_experts_bytes);
  CHECK(all.total_bytes == all.full_bytes);
  CHECK(all.total_bytes < all.budget_bytes);
  options.ram_budget_bytes = all.minimum_bytes + all.largest_expert_bytes;
  const colibri_plan some = plan_of(tiny_model(), options);
  CHECK(some.expert_bytes == 5 * some.largest_expert_bytes);
  CHECK(some.total_bytes == options.ram_budget_bytes);
  CHECK(some.full_bytes == all.full_bytes);
}

TEST_CASE("slots, context and engines raise their parts in proportion") {
  colibri_model_options options = small_options();
  const colibri_plan one = plan_of(tiny_model(), options);
  options.n_slots = 6;
  CHECK(plan_of(tiny_model(), options).kv_bytes == 3 * one.kv_bytes);
  options.context_tokens = 128;
  CHECK(plan_of(tiny_model(), options).kv_bytes == 6 * one.kv_bytes);
  options = small_options();
  options.n_engines = 4;
  CHECK(plan_of(tiny_model(), options).workspace_bytes == 4 * one.workspace_bytes);
  CHECK(one.kv_bytes == uint64_t{2} * 64 * one.kv_bytes_per_token);
}

TEST_CASE("a plan beyond 2^31 and 2^40 bytes is exact and allocates nothing") {
  colibri_model_options options = small_options();
  const std::string path = golden_model("glm_moe_dsa-int4g64");
  options.n_slots = 512;
  options.context_tokens = 202752;
  options.ram_budget_bytes = uint64_t{1} << 62;
  const colibri_plan plan = plan_of(path, options);
  CHECK(plan.kv_bytes == uint64_t{512} * 202752 * plan.kv_bytes_per_token);
  CHECK(plan.kv_bytes > uint64_t{1} << 37);
  CHECK(plan.is_feasible == 1);
  options.ram_budget_bytes = uint64_t{1} << 31;
  CHECK(plan_of(path, options).is_feasible == 0);
}

TEST_CASE(
    "the longest context is planned exactly and a longer one refused, whatever the config says") {
  constexpr uint32_t kMostContext = 2097152;
  const ModelCopy copy(golden_model("glm_moe_dsa-int4g64"), "colibri_absurd_context");
  std::stringstream config;
  config << std::ifstream(copy.file("config.json")).rdbuf();
  std::ofstream(copy.file("config.json"), std::ios::trunc)
      << std::regex_replace(config.str(), std::regex("\"max_position_embeddings\": 202752"),
                            "\"max_position_embeddings\": 2147483647");
  colibri_model_options options = small_options();
  options.n_slots = 512;
  options.max_rows = 4096;
  options.context_tokens = kMostContext;
  options.ram_budget_bytes = UINT64_MAX;
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  REQUIRE(colibri_model_plan(copy.path().c_str(), &options, &plan, nullptr) == COLIBRI_OK);
  CHECK(plan.kv_bytes >= uint64_t{512} * kMostContext * plan.kv_bytes_per_token);
  CHECK(plan.kv_bytes > uint64_t{1} << 40);
  options.ram_budget_bytes = uint64_t{1} << 40;
  message_of(COLIBRI_E_BUDGET,
             [&](colibri_error *error) { return open_status(copy.path(), options, error); });
  options.context_tokens = kMostContext + 1;
  message_of(COLIBRI_E_ARGUMENT,
             [&](colibri_error *error) { return open_status(copy.path(), options, error); });
}

TEST_CASE("a tokenizer is priced by its file, and not if it is skipped") {
  colibri_model_options options = small_options();
  const uint64_t with = plan_of(tiny_model(), options).overhead_bytes;
  options.skip_tokenizer = 1;
  const uint64_t without = plan_of(tiny_model(), options).overhead_bytes;
  CHECK(with >= without + fs::file_size(fs::path(tiny_model()) / "tokenizer.json"));
}

TEST_CASE("the plan of an open model is the one that was computed before") {
  colibri_model_options options = small_options();
  options.ram_budget_bytes = plan_of(tiny_model(), options).minimum_bytes;
  const std::string before = read_text([&](char *buffer, size_t capacity, size_t *length,
                                           colibri_error *error) {
    return colibri_model_plan_json(tiny_model().c_str(), &options, buffer, capacity, length, error);
  });
  const Model model = open_model(tiny_model(), options);
  const std::string open =
      read_text([&](char *buffer, size_t capacity, size_t *length, colibri_error *error) {
        return colibri_model_describe(model.get(), buffer, capacity, length, error);
      });
  CHECK_THAT(open, Contains("\"plan\":" + before));
}
