// SPDX-License-Identifier: Apache-2.0
//
// Opening and closing models: paths, progress and cancel, log lines, size queries, the order of
// ends.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

struct Progress {
  std::vector<uint64_t> done;
  std::vector<uint64_t> total;
  size_t stop_after = SIZE_MAX;
};

int32_t on_progress(void *user, uint64_t done_bytes, uint64_t total_bytes) {
  Progress &progress = *static_cast<Progress *>(user);
  progress.done.push_back(done_bytes);
  progress.total.push_back(total_bytes);
  return progress.done.size() > progress.stop_after ? 1 : 0;
}

struct LogLines {
  std::vector<std::pair<int32_t, std::string>> lines;
};

void on_log(void *user, int32_t level, const char *line) {
  static_cast<LogLines *>(user)->lines.emplace_back(level, line);
}

std::string open_failure(const std::string &path, colibri_status expected) {
  const colibri_model_options options = small_options();
  colibri_model *model = reinterpret_cast<colibri_model *>(8);
  const std::string message = message_of(expected, [&](colibri_error *error) {
    return colibri_model_open(path.c_str(), &options, &model, error);
  });
  CHECK(model == nullptr);
  return message;
}

}  // namespace

TEST_CASE("a model opens from its folder, its config and any shard") {
  const std::string folder = tiny_model();
  for (const std::string &path : {folder, folder + "/config.json",
                                  folder + "/model-00001-of-00001.safetensors", folder + "/"}) {
    CAPTURE(path);
    const Model model = open_model(path, small_options());
    colibri_model_facts facts{};
    facts.struct_size = sizeof(facts);
    REQUIRE(colibri_model_get_facts(model.get(), &facts, nullptr) == COLIBRI_OK);
    CHECK(facts.struct_size == sizeof(facts));
    CHECK(facts.vocabulary_size == 2048);
    CHECK(facts.n_token_ids <= 2048);
    CHECK(facts.width == 192);
    CHECK(facts.n_layers == 8);
    CHECK(facts.n_experts == 32);
    CHECK(facts.n_experts_per_token == 4);
    CHECK(facts.max_positions == 1024);
    CHECK(facts.has_tokenizer == 1);
    CHECK(facts.model_type == std::string("glm_moe_dsa"));
    CHECK(facts.identity != 0);
  }
}

TEST_CASE("a folder whose name has a space and letters beyond ASCII opens") {
  const ModelCopy copy(tiny_model(), "colibri \xc3\xa4\xe6\x96\x87 test");
  const Model model = open_model(copy.path(), small_options());
  CHECK(model != nullptr);
}

TEST_CASE("a path without a snapshot is named in the refusal") {
  CHECK_THAT(open_failure("/nonexistent/model", COLIBRI_E_NOT_FOUND),
             Contains("/nonexistent/model"));
  open_failure("", COLIBRI_E_NOT_FOUND);
}

TEST_CASE("a broken tokenizer.json is an error and an absent one is not") {
  const ModelCopy copy(tiny_model(), "colibri_broken_tokenizer");
  std::ofstream(copy.file("tokenizer.json"), std::ios::trunc) << "{\"model\": ";
  CHECK_THAT(open_failure(copy.path(), COLIBRI_E_FORMAT), Contains("tokenizer.json"));
  colibri_model_options options = small_options();
  options.skip_tokenizer = 1;
  CHECK(open_model(copy.path(), options) != nullptr);
  fs::remove(copy.file("tokenizer.json"));
  const Model model = open_model(copy.path(), small_options());
  CHECK(colibri_model_tokenizer(model.get()) == nullptr);
}

TEST_CASE("a file that is cut by one byte is refused at open") {
  const ModelCopy copy(tiny_model(), "colibri_cut_file");
  const fs::path shard = copy.file("model-00001-of-00001.safetensors");
  fs::resize_file(shard, fs::file_size(shard) - 1);
  CHECK_THAT(open_failure(copy.path(), COLIBRI_E_FORMAT),
             Contains("model-00001-of-00001.safetensors"));
}

TEST_CASE("progress of open rises to the total, which is constant") {
  Progress progress;
  colibri_model_options options = small_options();
  options.progress = on_progress;
  options.progress_user = &progress;
  const Model model = open_model(tiny_model(), options);
  REQUIRE(progress.done.size() >= 2);
  for (size_t i = 0; i < progress.done.size(); ++i) {
    CHECK(progress.total[i] == progress.total[0]);
    if (i > 0) CHECK(progress.done[i] >= progress.done[i - 1]);
  }
  CHECK(progress.done.back() == progress.total.back());
  CHECK(progress.total[0] > 0);
}

TEST_CASE("progress can stop open at every point and nothing stays behind") {
  Progress all;
  colibri_model_options options = small_options();
  options.progress = on_progress;
  options.progress_user = &all;
  open_model(tiny_model(), options).reset();
  for (size_t stop = 0; stop < all.done.size(); stop += 7) {
    Progress progress;
    progress.stop_after = stop;
    options.progress_user = &progress;
    colibri_model *model = reinterpret_cast<colibri_model *>(8);
    message_of(COLIBRI_E_CANCELLED, [&](colibri_error *error) {
      return colibri_model_open(tiny_model().c_str(), &options, &model, error);
    });
    CHECK(model == nullptr);
    CHECK(progress.done.size() == stop + 1);
  }
}

TEST_CASE("log lines are whole, have levels, and respect the most detailed level") {
  LogLines log;
  colibri_model_options options = small_options();
  options.log = on_log;
  options.log_user = &log;
  open_model(tiny_model(), options).reset();
  REQUIRE(!log.lines.empty());
  for (const auto &[level, line] : log.lines) {
    CHECK(level >= COLIBRI_LOG_ERROR);
    CHECK(level <= COLIBRI_LOG_INFO);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(!line.empty());
  }
  LogLines errors;
  options.log_user = &errors;
  options.log_level = COLIBRI_LOG_ERROR;
  open_model(tiny_model(), options).reset();
  CHECK(errors.lines.empty());
}

TEST_CASE("coarse four-bit scales are reported as a warning") {
  LogLines log;
  colibri_model_options options = small_options();
  options.log = on_log;
  options.log_user = &log;
  options.log_level = COLIBRI_LOG_WARNING;
  open_model(golden_model("glm_moe_dsa-int4row"), options).reset();
  REQUIRE(!log.lines.empty());
  CHECK(log.lines[0].first == COLIBRI_LOG_WARNING);
}

TEST_CASE("stop ids are the union over the files of a snapshot, ascending") {
  const Model model = open_tiny();
  size_t n_ids = 0;
  REQUIRE(colibri_model_stop_ids(model.get(), nullptr, 0, &n_ids, nullptr) == COLIBRI_OK);
  std::vector<int32_t> ids(n_ids);
  REQUIRE(colibri_model_stop_ids(model.get(), ids.data(), ids.size(), &n_ids, nullptr) ==
          COLIBRI_OK);
  CHECK(ids == std::vector<int32_t>{2028, 2035, 2037});
  ids.assign(3, -7);
  n_ids = 0;
  CHECK(colibri_model_stop_ids(model.get(), ids.data(), 2, &n_ids, nullptr) == COLIBRI_E_CAPACITY);
  CHECK(n_ids == 3);
  CHECK(ids == std::vector<int32_t>{-7, -7, -7});
}

TEST_CASE("a model with live children is not closed") {
  colibri_model_options options = small_options();
  options.n_engines = 2;
  options.n_slots = 3;
  Model model = open_model(tiny_model(), options);
  const auto refuses = [&](const char *what) {
    CHECK_THAT(
        message_of(COLIBRI_E_BUSY,
                   [&](colibri_error *error) { return colibri_model_close(model.get(), error); }),
        Contains(what));
  };
  Slot slot = make_slot(model.get());
  refuses("1 slots");
  Batch batch = make_batch(model.get());
  refuses("1 batches");
  Scheduler scheduler = make_scheduler(model.get());
  refuses("1 schedulers");
  slot.reset();
  batch.reset();
  refuses("0 slots, 0 batches, 1 schedulers");
  CHECK(generate(scheduler.get(), {1, 2, 3}, 2).finish == COLIBRI_FINISH_LENGTH);  // still usable
  scheduler.reset();
  colibri_stream_decoder *decoder = nullptr;
  REQUIRE(colibri_stream_decoder_create(colibri_model_tokenizer(model.get()), 0, &decoder,
                                        nullptr) == COLIBRI_OK);
  refuses("1 stream decoders");
  CHECK(colibri_stream_decoder_destroy(decoder, nullptr) == COLIBRI_OK);
  CHECK(colibri_model_close(model.release(), nullptr) == COLIBRI_OK);
}

TEST_CASE("the tokenizer of a model cannot be closed by itself") {
  const Model model = open_tiny();
  const colibri_tokenizer *tokenizer = colibri_model_tokenizer(model.get());
  CHECK_THAT(message_of(COLIBRI_E_BUSY,
                        [&](colibri_error *error) {
                          return colibri_tokenizer_close(const_cast<colibri_tokenizer *>(tokenizer),
                                                         error);
                        }),
             Contains("belongs to a model"));
  CHECK(colibri_tokenizer_size(tokenizer) > 0);
}
