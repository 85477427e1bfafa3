// SPDX-License-Identifier: Apache-2.0
//
// Options of a model: every field outside its range is refused with field, value and range, and
// what is effective can be queried.

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
using Catch::Matchers::Contains;

namespace {

std::string refusal(colibri_status expected,
                    const std::function<void(colibri_model_options &)> &change) {
  colibri_model_options options = small_options();
  change(options);
  colibri_model *model = nullptr;
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  const std::string path = tiny_model();
  const std::string message = message_of(expected, [&](colibri_error *error) {
    return colibri_model_open(path.c_str(), &options, &model, error);
  });
  CHECK(model == nullptr);
  CHECK(message == message_of(expected, [&](colibri_error *error) {
          return colibri_model_plan(path.c_str(), &options, &plan, error);
        }));
  return message;
}

}  // namespace

TEST_CASE("a numeric option outside its range is refused with field, value and range") {
  using Options = colibri_model_options;
  const auto check = [](const char *field, const char *value, const char *range, auto change) {
    const std::string message = refusal(COLIBRI_E_ARGUMENT, change);
    CHECK_THAT(message, Contains(field) && Contains(value) && Contains(range));
  };
  check("n_threads", "1025", "1..1024", [](Options &o) { o.n_threads = 1025; });
  check("n_slots", "513", "1..512", [](Options &o) { o.n_slots = 513; });
  check("context_tokens", "1025", "1..1024", [](Options &o) { o.context_tokens = 1025; });
  check("max_rows", "4097", "1..4096", [](Options &o) { o.max_rows = 4097; });
  check("max_logits_rows", "17", "1..16", [](Options &o) { o.max_logits_rows = 17; });
  check("n_engines", "65", "1..64", [](Options &o) { o.n_engines = 65; });
  check("n_loader_threads", "65", "1..64", [](Options &o) { o.n_loader_threads = 65; });
  check("log_level", "5", "1..4", [](Options &o) { o.log_level = 5; });
  check("skip_tokenizer", "2", "0 or 1", [](Options &o) { o.skip_tokenizer = 2; });
  check("refuse_outside_links", "7", "0 or 1", [](Options &o) { o.refuse_outside_links = 7; });
  for (const float epsilon : {-1.0f, 1.5f, 1e-20f, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
    check("latent_norm_eps", "", "1e-12..1",
          [epsilon](Options &o) { o.latent_norm_eps = epsilon; });
  }
}

TEST_CASE("a choice that this version does not offer is refused by name, never ignored") {
  CHECK_THAT(refusal(COLIBRI_E_UNSUPPORTED, [](auto &o) { o.activations = 3; }),
             Contains("activations is 3"));
  CHECK_THAT(refusal(COLIBRI_E_UNSUPPORTED, [](auto &o) { o.kv_type = 4; }),
             Contains("kv_type is 4"));
  CHECK_THAT(refusal(COLIBRI_E_ARGUMENT, [](auto &o) { o.kernel_set = "sse9"; }),
             Contains("sse9") && Contains("ref"));
}

TEST_CASE("the effective configuration of a model can be queried") {
  colibri_model_options options = small_options();
  options.kernel_set = "ref";
  options.activations = COLIBRI_ACTIVATIONS_FLOAT;
  options.latent_norm_eps = 0.5f;
  options.n_engines = 3;
  options.skip_tokenizer = 1;
  const Model model = open_model(tiny_model(), options);
  colibri_model_facts facts{};
  facts.struct_size = sizeof(facts);
  REQUIRE(colibri_model_get_facts(model.get(), &facts, nullptr) == COLIBRI_OK);
  CHECK(facts.kernel_set == std::string("ref"));
  CHECK(facts.activations == COLIBRI_ACTIVATIONS_FLOAT);
  CHECK(facts.kv_type == COLIBRI_KV_F32);
  CHECK(facts.latent_norm_eps == 0.5f);
  CHECK(facts.n_threads == 2);
  CHECK(facts.n_slots == 2);
  CHECK(facts.context_tokens == 64);
  CHECK(facts.max_rows == 16);
  CHECK(facts.max_logits_rows == 8);
  CHECK(facts.n_engines == 3);
  CHECK(facts.has_tokenizer == 0);
  CHECK(colibri_model_tokenizer(model.get()) == nullptr);
}

TEST_CASE("without options every default is as documented") {
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  REQUIRE(colibri_model_plan(tiny_model().c_str(), nullptr, &plan, nullptr) == COLIBRI_OK);
  CHECK(plan.n_slots == 1);
  CHECK(plan.context_tokens == 1024);  // max_positions of this model, below 4096
  CHECK(plan.max_rows == 128);
  CHECK(plan.max_logits_rows == 8);
  CHECK(plan.n_engines == 1);
  CHECK(plan.n_threads >= 1);
  CHECK(plan.budget_bytes > 0);
  REQUIRE(colibri_model_plan(golden_model("glm_moe_dsa-int4g64").c_str(), nullptr, &plan,
                             nullptr) == COLIBRI_OK);
  CHECK(plan.context_tokens == 4096);  // of 202752
}

TEST_CASE("more slots than default logits rows raise the default, within the row budget") {
  colibri_model_options options = small_options();
  options.n_slots = 40;
  options.max_rows = 32;
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  REQUIRE(colibri_model_plan(tiny_model().c_str(), &options, &plan, nullptr) == COLIBRI_OK);
  CHECK(plan.max_logits_rows == 32);
  options.n_slots = 20;
  REQUIRE(colibri_model_plan(tiny_model().c_str(), &options, &plan, nullptr) == COLIBRI_OK);
  CHECK(plan.max_logits_rows == 20);
}

TEST_CASE("the smallest values of all options work") {
  colibri_model_options options = small_options();
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = 1;
  options.max_rows = 1;
  options.max_logits_rows = 1;
  options.n_engines = 1;
  options.n_loader_threads = 1;
  const Model model = open_model(tiny_model(), options);
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  CHECK(decode(batch.get(), slot.get(), {5}).size() == 2048);
  CHECK(colibri_kv_slot_length(slot.get()) == 1);
}
