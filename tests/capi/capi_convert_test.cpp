// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/convert.h: what is refused, conversion with progress, cancel and resume, and
// verification.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
namespace fs = std::filesystem;

namespace {

constexpr const char *kIntegerCase = "glm_moe_dsa-int4g64";
constexpr const char *kFloatCase = "glm_moe_dsa-sparse";

colibri_convert_options quick_options() {
  colibri_convert_options options;
  colibri_convert_options_init(&options, sizeof options);
  options.n_threads = 2;
  return options;
}

colibri_status convert(const std::string &source, const std::string &destination,
                       const colibri_convert_options &options,
                       colibri_convert_report *report = nullptr, colibri_error *error = nullptr) {
  return colibri_convert(source.c_str(), destination.c_str(), &options, report, error);
}

colibri_convert_report make_report() {
  colibri_convert_report report{};
  report.struct_size = sizeof report;
  return report;
}

colibri_status verify(const std::string &path, colibri_verify_report *report) {
  *report = {};
  report->struct_size = sizeof *report;
  return colibri_snapshot_verify(path.c_str(), 2, nullptr, nullptr, report, nullptr);
}

std::string read_file(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool are_equal(const std::string &left, const std::string &right) {
  size_t n_left = 0;
  for (const auto &entry : fs::directory_iterator(left)) {
    ++n_left;
    const fs::path other = fs::path(right) / entry.path().filename();
    if (!fs::exists(other) || read_file(entry.path()) != read_file(other)) return false;
  }
  return n_left == static_cast<size_t>(std::distance(fs::directory_iterator(right), {}));
}

// Remembers the calls of a progress function and stops at one of them.
struct Watch {
  uint64_t n_calls = 0;
  uint64_t stop_at = UINT64_MAX;
  uint64_t done = 0, total = 0;
  bool is_orderly = true;
};

int32_t watch(void *user, uint64_t done_bytes, uint64_t total_bytes) {
  Watch &seen = *static_cast<Watch *>(user);
  seen.is_orderly &= done_bytes >= seen.done && done_bytes <= total_bytes &&
                     (seen.n_calls == 0 || total_bytes == seen.total);
  seen.done = done_bytes;
  seen.total = total_bytes;
  return seen.n_calls++ == seen.stop_at ? 1 : 0;
}

}  // namespace

TEST_CASE("conversion refuses what is NULL and every option outside its range, by name") {
  const ResultFolder place;
  const std::string source = golden_model(kIntegerCase);
  CHECK(colibri_convert(nullptr, "x", nullptr, nullptr, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_convert(source.c_str(), nullptr, nullptr, nullptr, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_convert(source.c_str(), "", nullptr, nullptr, nullptr) == COLIBRI_E_ARGUMENT);
  colibri_convert_options_init(nullptr, 64);

  const std::vector<std::pair<const char *, std::function<void(colibri_convert_options *)>>>
      faults = {{"experts", [](auto *o) { o->experts = 5; }},
                {"experts", [](auto *o) { o->experts = COLIBRI_WEIGHTS_BF16; }},
                {"dense", [](auto *o) { o->dense = -1; }},
                {"embedding", [](auto *o) { o->embedding = COLIBRI_WEIGHTS_INT4; }},
                {"head", [](auto *o) { o->head = COLIBRI_WEIGHTS_INT4; }},
                {"group", [](auto *o) { o->group = 48; }},
                {"scales", [](auto *o) { o->scales = 3; }},
                {"n_threads", [](auto *o) { o->n_threads = 1025; }},
                {"resume", [](auto *o) { o->resume = 2; }},
                {"reserved", [](auto *o) { o->reserved = 1; }},
                {"max_shard_bytes", [](auto *o) { o->max_shard_bytes = 1048575; }}};
  for (const auto &[field, spoil] : faults) {
    colibri_convert_options options = quick_options();
    spoil(&options);
    const std::string message = message_of(COLIBRI_E_ARGUMENT, [&](colibri_error *error) {
      return convert(source, place.path(), options, nullptr, error);
    });
    INFO(message);
    CHECK(message.find(field) != std::string::npos);
    CHECK_FALSE(fs::exists(place.path()));
  }
}

TEST_CASE("conversion refuses sources and destinations that cannot be, by name") {
  const ResultFolder place;
  const colibri_convert_options options = quick_options();
  const std::string source = golden_model(kIntegerCase);
  CHECK(convert(place.path("absent"), place.path(), options) == COLIBRI_E_NOT_FOUND);
  CHECK(convert(source, source + "/packed", options) == COLIBRI_E_ARGUMENT);
  CHECK(convert(source, source, options) == COLIBRI_E_ARGUMENT);
  CHECK(convert(source, place.path("absent/packed"), options) == COLIBRI_E_IO);
  fs::create_directory(place.path());
  const std::string message = message_of(COLIBRI_E_ARGUMENT, [&](colibri_error *error) {
    return convert(source, place.path(), options, nullptr, error);
  });
  CHECK(message.find("exists") != std::string::npos);
  REQUIRE(convert(source, place.path("once"), options) == COLIBRI_OK);
  CHECK(convert(place.path("once"), place.path("twice"), options) == COLIBRI_E_UNSUPPORTED);
}

TEST_CASE("a packed model of integers says what its source says") {
  const ResultFolder place;
  const std::string source = golden_model(kIntegerCase);
  colibri_convert_report report = make_report();
  REQUIRE(convert(source, place.path(), quick_options(), &report) == COLIBRI_OK);
  CHECK(report.n_kept_matrices > 100);
  CHECK(report.n_quantised_matrices == 0);
  CHECK(report.relative_error == 0);
  CHECK(report.n_resumed_tensors == 0);
  CHECK(report.source_bytes > 1'000'000);
  CHECK(report.result_bytes > report.source_bytes / 2);

  const std::vector<int32_t> prompt = {4, 42, 7, 19, 63};
  std::vector<std::vector<float>> logits;
  for (const std::string &path : {source, place.path()}) {
    const Model model = open_model(path, small_options());
    const Slot slot = make_slot(model.get());
    const Batch batch = make_batch(model.get());
    logits.push_back(decode(batch.get(), slot.get(), prompt));
  }
  REQUIRE(logits[0].size() == logits[1].size());
  CHECK(std::memcmp(logits[0].data(), logits[1].data(), logits[0].size() * sizeof(float)) == 0);
}

TEST_CASE("defaults quantise a float model, and the report may be left out") {
  const ResultFolder place;
  const std::string source = golden_model(kFloatCase);
  colibri_convert_report report = make_report();
  REQUIRE(convert(source, place.path("a"), quick_options(), &report) == COLIBRI_OK);
  CHECK(report.n_kept_matrices == 0);
  CHECK(report.n_quantised_matrices > 0);
  CHECK(report.relative_error > 0.01);
  CHECK(report.relative_error < 0.2);
  REQUIRE(colibri_convert(source.c_str(), place.path("b").c_str(), nullptr, nullptr, nullptr) ==
          COLIBRI_OK);
  CHECK(are_equal(place.path("a"), place.path("b")));
  const Model model = open_model(place.path("b"), small_options());
}

TEST_CASE("progress never falls and counts every byte twice") {
  const ResultFolder place;
  Watch seen;
  colibri_convert_options options = quick_options();
  options.progress = watch;
  options.progress_user = &seen;
  colibri_convert_report report = make_report();
  REQUIRE(convert(golden_model(kFloatCase), place.path(), options, &report) == COLIBRI_OK);
  CHECK(seen.is_orderly);
  CHECK(seen.done == seen.total);
  CHECK(seen.total == 2 * report.result_bytes);
  CHECK(seen.n_calls > report.n_tensors);
}

TEST_CASE("a stopped conversion goes on where it was and gives the same bytes") {
  const ResultFolder place;
  const std::string source = golden_model(kFloatCase);
  Watch whole;
  colibri_convert_options options = quick_options();
  options.progress = watch;
  options.progress_user = &whole;
  REQUIRE(convert(source, place.path("whole"), options) == COLIBRI_OK);
  for (const uint64_t part : {10u, 2u}) {
    const std::string name = "part" + std::to_string(part);
    Watch seen;
    seen.stop_at = whole.n_calls / part;
    options.progress_user = &seen;
    options.resume = 0;
    CHECK(convert(source, place.path(name), options) == COLIBRI_E_CANCELLED);
    CHECK_FALSE(fs::exists(place.path(name)));
    seen.stop_at = UINT64_MAX;
    const std::string message = message_of(COLIBRI_E_ARGUMENT, [&](colibri_error *error) {
      return convert(source, place.path(name), options, nullptr, error);
    });
    CHECK(message.find("--resume") != std::string::npos);
    options.resume = 1;
    options.group = 128;
    CHECK(convert(source, place.path(name), options) == COLIBRI_E_MISMATCH);
    options.group = 0;
    seen = Watch();
    colibri_convert_report report = make_report();
    REQUIRE(convert(source, place.path(name), options, &report) == COLIBRI_OK);
    CHECK(report.n_resumed_tensors > 0);
    CHECK(seen.is_orderly);
    CHECK(seen.done == seen.total);
    CHECK(are_equal(place.path("whole"), place.path(name)));
  }
  options.progress_user = &whole;
  options.resume = 1;
  CHECK(convert(source, place.path("never begun"), options) == COLIBRI_OK);
  CHECK(are_equal(place.path("whole"), place.path("never begun")));
}

TEST_CASE("verification finds what has changed, and names it") {
  const ResultFolder place;
  REQUIRE(convert(golden_model(kIntegerCase), place.path(), quick_options()) == COLIBRI_OK);
  colibri_verify_report report;
  REQUIRE(verify(place.path(), &report) == COLIBRI_OK);
  CHECK(report.n_damaged == 0);
  CHECK(report.n_tensors > 10);
  CHECK(report.n_files >= 2);
  CHECK(std::string(report.first_damaged).empty());

  std::ofstream(place.path() + "/config.json", std::ios::app) << "\n";
  REQUIRE(verify(place.path(), &report) == COLIBRI_OK);
  CHECK(report.n_damaged == 1);
  CHECK(std::string(report.first_damaged) == "config.json");

  const std::string shard = place.path() + "/model-00001-of-00001.safetensors";
  std::fstream stream(shard, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(-1, std::ios::end);
  const int last = stream.peek();
  stream.put(static_cast<char>(last ^ 1));
  stream.close();
  REQUIRE(verify(place.path(), &report) == COLIBRI_OK);
  CHECK(report.n_damaged == 2);
  CHECK(std::string(report.first_damaged).find("model") == 0);
}

TEST_CASE("verification refuses what carries no checksums, and can be stopped") {
  const ResultFolder place;
  colibri_verify_report report;
  CHECK(verify(golden_model(kIntegerCase), &report) == COLIBRI_E_UNSUPPORTED);
  CHECK(verify(place.path("absent"), &report) == COLIBRI_E_NOT_FOUND);
  CHECK(colibri_snapshot_verify(nullptr, 0, nullptr, nullptr, &report, nullptr) ==
        COLIBRI_E_ARGUMENT);
  CHECK(colibri_snapshot_verify("x", 0, nullptr, nullptr, nullptr, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_snapshot_verify("x", 1025, nullptr, nullptr, &report, nullptr) ==
        COLIBRI_E_ARGUMENT);

  REQUIRE(convert(golden_model(kIntegerCase), place.path(), quick_options()) == COLIBRI_OK);
  Watch seen;
  CHECK(colibri_snapshot_verify(place.path().c_str(), 0, watch, &seen, &report, nullptr) ==
        COLIBRI_OK);
  CHECK(seen.is_orderly);
  CHECK(seen.done == seen.total);
  CHECK(seen.total == report.bytes);
  seen = Watch();
  seen.stop_at = 0;
  CHECK(colibri_snapshot_verify(place.path().c_str(), 0, watch, &seen, &report, nullptr) ==
        COLIBRI_E_CANCELLED);
}

TEST_CASE("of two conversions to one place exactly one succeeds, and two threads verify it") {
  const ResultFolder place;
  const std::string source = golden_model(kIntegerCase);
  for (int round = 0; round < 5; ++round) {
    const std::string path = place.path(std::to_string(round));
    colibri_status statuses[2] = {};
    std::thread other([&] { statuses[1] = convert(source, path, quick_options()); });
    statuses[0] = convert(source, path, quick_options());
    other.join();
    INFO(statuses[0] << ", " << statuses[1]);
    CHECK((statuses[0] == COLIBRI_OK) != (statuses[1] == COLIBRI_OK));
    const colibri_status refused = statuses[0] == COLIBRI_OK ? statuses[1] : statuses[0];
    CHECK((refused == COLIBRI_E_BUSY || refused == COLIBRI_E_ARGUMENT));
    colibri_verify_report reports[2];
    std::thread verifying([&] { statuses[1] = verify(path, &reports[1]); });
    statuses[0] = verify(path, &reports[0]);
    verifying.join();
    for (const int i : {0, 1}) {
      CHECK(statuses[i] == COLIBRI_OK);
      CHECK(reports[i].n_damaged == 0);
    }
  }
}
