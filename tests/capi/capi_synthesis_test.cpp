// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/convert.h: snapshots of random weights. What is in them is tested in
// tests/convert.

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <thread>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
namespace fs = std::filesystem;

namespace {

colibri_synthesis_options tiny_options() {
  colibri_synthesis_options options;
  colibri_synthesis_options_init(&options, sizeof options);
  options.shape = "colibri-tiny";
  options.n_layers = 2;
  options.n_threads = 2;
  return options;
}

colibri_status synthesise(const std::string &path, const colibri_synthesis_options &options,
                          colibri_error *error = nullptr) {
  return colibri_snapshot_synthesise(path.c_str(), &options, error);
}

std::string read_file(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string shard_of(const std::string &path) {
  return read_file(path + "/model-00001-of-00001.safetensors");
}

int32_t stop_at_once(void *user, uint64_t, uint64_t total_bytes) {
  *static_cast<uint64_t *>(user) = total_bytes;
  return 1;
}

}  // namespace

TEST_CASE("synthesis refuses what is NULL and every option outside its range, by name") {
  const ResultFolder place;
  CHECK(colibri_snapshot_synthesise(nullptr, nullptr, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(synthesise("", tiny_options()) == COLIBRI_E_ARGUMENT);
  colibri_synthesis_options_init(nullptr, 64);
  const std::vector<std::pair<const char *, std::function<void(colibri_synthesis_options *)>>>
      faults = {{"'gpt'", [](auto *o) { o->shape = "gpt"; }},
                {"n_layers is 1001", [](auto *o) { o->n_layers = 1001; }},
                {"skew is -1", [](auto *o) { o->skew = -1.0f; }},
                {"skew is 2.1;", [](auto *o) { o->skew = 2.1f; }},
                {"skew", [](auto *o) { o->skew = std::nanf(""); }},
                {"repeat is 0.05 ", [](auto *o) { o->repeat = 0.05f; }},
                {"repeat is 1.1;", [](auto *o) { o->repeat = 1.1f; }},
                {"repeat", [](auto *o) { o->repeat = std::numeric_limits<float>::infinity(); }},
                {"n_threads", [](auto *o) { o->n_threads = 1025; }},
                {"reserved", [](auto *o) { o->reserved = 1; }}};
  for (const auto &[part, spoil] : faults) {
    colibri_synthesis_options options = tiny_options();
    spoil(&options);
    const std::string message = message_of(COLIBRI_E_ARGUMENT, [&](colibri_error *error) {
      return synthesise(place.path(), options, error);
    });
    INFO(message);
    CHECK(message.find(part) != std::string::npos);
    CHECK(place.is_empty());
  }
  CHECK(synthesise(place.path("absent/model"), tiny_options()) == COLIBRI_E_IO);
}

TEST_CASE("a synthesised snapshot opens, is sound, and decodes in circles") {
  const ResultFolder place;
  REQUIRE(synthesise(place.path(), tiny_options()) == COLIBRI_OK);
  colibri_verify_report report{};
  report.struct_size = sizeof report;
  REQUIRE(colibri_snapshot_verify(place.path().c_str(), 0, nullptr, nullptr, &report, nullptr) ==
          COLIBRI_OK);
  CHECK(report.n_damaged == 0);
  CHECK(read_file(place.path() + "/config.json").find("Random weights") != std::string::npos);

  const Model model = open_model(place.path(), small_options());
  const Scheduler scheduler = make_scheduler(model.get());
  const Outcome outcome = generate(scheduler.get(), {100}, 40);
  CHECK(outcome.finish == COLIBRI_FINISH_LENGTH);
  // 2048 tokens, 45 topics: token 100 belongs to the topic of 10.
  for (const int32_t token : outcome.tokens) CHECK(token % 45 == 10);
  CHECK(std::set<int32_t>(outcome.tokens.begin(), outcome.tokens.end()).size() == 40);
}

TEST_CASE("fields that are 0 are as the defaults that the header states") {
  const ResultFolder place;
  colibri_synthesis_options options;
  colibri_synthesis_options_init(&options, sizeof options);
  options.shape = "colibri-tiny";
  REQUIRE(synthesise(place.path("default"), options) == COLIBRI_OK);
  options.n_layers = 4;
  options.repeat = 0.4f;
  options.seed = 1;
  options.n_threads = 1;
  REQUIRE(synthesise(place.path("explicit"), options) == COLIBRI_OK);
  CHECK(shard_of(place.path("default")) == shard_of(place.path("explicit")));
  CHECK(read_file(place.path("default/config.json")).find("\"repeat\":0.4,") != std::string::npos);
  options.seed = 2;
  REQUIRE(synthesise(place.path("other"), options) == COLIBRI_OK);
  CHECK(shard_of(place.path("default")) != shard_of(place.path("other")));
}

TEST_CASE("a stopped synthesis makes nothing, and the same call goes on with it") {
  const ResultFolder place;
  uint64_t total_bytes = 0;
  colibri_synthesis_options options = tiny_options();
  options.progress = stop_at_once;
  options.progress_user = &total_bytes;
  CHECK(synthesise(place.path(), options) == COLIBRI_E_CANCELLED);
  CHECK(total_bytes > 1'000'000);
  CHECK_FALSE(fs::exists(place.path()));
  options.progress = nullptr;
  options.seed = 2;
  CHECK(synthesise(place.path(), options) == COLIBRI_E_MISMATCH);
  options.seed = 1;
  CHECK(synthesise(place.path(), options) == COLIBRI_OK);
  CHECK(synthesise(place.path(), options) == COLIBRI_E_ARGUMENT);
}

TEST_CASE("the default shape is a large one") {
  const ResultFolder place;
  uint64_t total_bytes = 0;
  colibri_synthesis_options options;
  colibri_synthesis_options_init(&options, sizeof options);
  options.progress = stop_at_once;
  options.progress_user = &total_bytes;
  const colibri_status status = synthesise(place.path(), options);
  if (status == COLIBRI_E_IO) {
    WARN("not run: the disk is too small for a large snapshot");
    return;
  }
  CHECK(status == COLIBRI_E_CANCELLED);
  // 4 layers of 128 experts, embedding and head of 151,936 tokens; each byte counts twice.
  CHECK(static_cast<double>(total_bytes) == Approx(2 * 2.3e9).epsilon(0.02));
}

TEST_CASE("of two syntheses to one place exactly one succeeds") {
  const ResultFolder place;
  for (int round = 0; round < 5; ++round) {
    const std::string path = place.path(std::to_string(round));
    colibri_status statuses[2] = {};
    std::thread other([&] { statuses[1] = synthesise(path, tiny_options()); });
    statuses[0] = synthesise(path, tiny_options());
    other.join();
    INFO(statuses[0] << ", " << statuses[1]);
    CHECK((statuses[0] == COLIBRI_OK) != (statuses[1] == COLIBRI_OK));
    const colibri_status refused = statuses[0] == COLIBRI_OK ? statuses[1] : statuses[0];
    CHECK((refused == COLIBRI_E_BUSY || refused == COLIBRI_E_ARGUMENT));
  }
}
