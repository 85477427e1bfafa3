// SPDX-License-Identifier: Apache-2.0
//
// Definitions of what the tests of the C API share.

#include "tests/capi/fixture.h"

#include <unistd.h>

#include <system_error>

#include "tests/support/catch.h"

namespace capi_test {

std::string tiny_model() {
  return COLIBRI_TINY_MODEL;
}

std::string golden_model(const std::string &name) {
  return COLIBRI_TEST_DATA "/" + name;
}

ModelCopy::ModelCopy(const std::string &source, const std::string &name)
    : path_(std::filesystem::temp_directory_path() / (name + std::to_string(getpid()))) {
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_);
  for (const auto &entry : std::filesystem::directory_iterator(source)) {
    if (!entry.is_regular_file()) continue;
    const std::filesystem::path copy = path_ / entry.path().filename();
    std::filesystem::copy_file(entry.path(), copy);
    std::filesystem::permissions(copy, std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
  }
}

ModelCopy::~ModelCopy() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ResultFolder::ResultFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "colibri_result_XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  folder_ = pattern;
}

ResultFolder::~ResultFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

namespace {

void require_ok(colibri_status status, const colibri_error &error) {
  INFO(error.message);
  REQUIRE(status == COLIBRI_OK);
}

// Destructors may run while a failed requirement unwinds: they only check.
void check_ended(colibri_status status) {
  CHECK(status == COLIBRI_OK);
}

}  // namespace

void End::operator()(colibri_model *model) const {
  check_ended(colibri_model_close(model, nullptr));
}
void End::operator()(colibri_tokenizer *tokenizer) const {
  check_ended(colibri_tokenizer_close(tokenizer, nullptr));
}
void End::operator()(colibri_stream_decoder *decoder) const {
  check_ended(colibri_stream_decoder_destroy(decoder, nullptr));
}
void End::operator()(colibri_kv_slot *slot) const {
  check_ended(colibri_kv_slot_destroy(slot, nullptr));
}
void End::operator()(colibri_batch *batch) const {
  check_ended(colibri_batch_destroy(batch, nullptr));
}
void End::operator()(colibri_scheduler *scheduler) const {
  check_ended(colibri_scheduler_destroy(scheduler, nullptr));
}

colibri_model_options small_options() {
  colibri_model_options options;
  colibri_model_options_init(&options, sizeof(options));
  options.n_threads = 2;
  options.n_slots = 2;
  options.context_tokens = 64;
  options.max_rows = 16;
  options.ram_budget_bytes = uint64_t{1} << 30;
  return options;
}

Model open_model(const std::string &path, const colibri_model_options &options) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_model *model = nullptr;
  require_ok(colibri_model_open(path.c_str(), &options, &model, &error), error);
  REQUIRE(model != nullptr);
  return Model(model);
}

Model open_tiny() {
  return open_model(tiny_model(), small_options());
}

Slot make_slot(colibri_model *model) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_kv_slot *slot = nullptr;
  require_ok(colibri_kv_slot_create(model, &slot, &error), error);
  return Slot(slot);
}

Batch make_batch(colibri_model *model) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_batch *batch = nullptr;
  require_ok(colibri_batch_create(model, &batch, &error), error);
  return Batch(batch);
}

Scheduler make_scheduler(colibri_model *model) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_scheduler *scheduler = nullptr;
  require_ok(colibri_scheduler_create(model, nullptr, &scheduler, &error), error);
  return Scheduler(scheduler);
}

colibri_request_options request_of(const std::vector<int32_t> &prompt, uint32_t max_tokens) {
  colibri_request_options options;
  colibri_request_options_init(&options, sizeof(options));
  options.prompt_ids = prompt.data();
  options.n_prompt_ids = prompt.size();
  options.max_tokens = max_tokens;
  return options;
}

colibri_request_id submit(colibri_scheduler *scheduler, const colibri_request_options &options) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_request_id request = 0;
  require_ok(colibri_scheduler_submit(scheduler, &options, &request, nullptr, &error), error);
  REQUIRE(request != 0);
  return request;
}

Outcome run_to_end(colibri_scheduler *scheduler, colibri_request_id request) {
  Outcome outcome;
  std::vector<colibri_event> events(16);
  for (int step = 0; step < 10000; ++step) {
    colibri_error error = COLIBRI_ERROR_INIT;
    require_ok(colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, nullptr, &error), error);
    size_t n_events = events.size();
    while (n_events == events.size()) {
      require_ok(colibri_scheduler_next_events(scheduler, events.data(), sizeof(colibri_event),
                                               events.size(), &n_events, &error),
                 error);
      for (size_t i = 0; i < n_events; ++i) {
        const colibri_event &event = events[i];
        if (event.request != request) continue;
        if (event.kind == COLIBRI_EVENT_TOKEN) outcome.tokens.push_back(event.token);
        if (event.text != nullptr) outcome.text.append(event.text, event.text_bytes);
        if (event.kind != COLIBRI_EVENT_FINISHED) continue;
        outcome.finish = event.finish;
        outcome.status = event.status;
        outcome.n_prompt_reused = event.n_prompt_reused;
        return outcome;
      }
    }
  }
  FAIL("the request did not finish within 10000 steps");
  return outcome;
}

Outcome generate(colibri_scheduler *scheduler, const std::vector<int32_t> &prompt,
                 uint32_t max_tokens) {
  colibri_request_options options = request_of(prompt, max_tokens);
  options.ignore_model_stops = 1;
  return run_to_end(scheduler, submit(scheduler, options));
}

std::vector<float> decode(colibri_batch *batch, colibri_kv_slot *slot,
                          const std::vector<int32_t> &tokens) {
  colibri_error error = COLIBRI_ERROR_INIT;
  require_ok(colibri_batch_clear(batch, &error), error);
  require_ok(colibri_batch_add(batch, slot, tokens.data(), tokens.size(), COLIBRI_LOGITS_LAST,
                               nullptr, &error),
             error);
  require_ok(colibri_batch_decode(batch, &error), error);
  const float *logits = nullptr;
  size_t n_logits = 0;
  require_ok(
      colibri_batch_logits(batch, colibri_batch_row_count(batch) - 1, &logits, &n_logits, &error),
      error);
  return std::vector<float>(logits, logits + n_logits);
}

std::string read_text(const TextCall &call) {
  colibri_error error = COLIBRI_ERROR_INIT;
  size_t length = 0;
  require_ok(call(nullptr, 0, &length, &error), error);
  std::vector<char> buffer(length + 64);
  require_ok(call(buffer.data(), buffer.size(), &length, &error), error);
  REQUIRE(length < buffer.size());
  REQUIRE(buffer[length] == '\0');
  return std::string(buffer.data(), length);
}

std::string message_of(colibri_status expected,
                       const std::function<colibri_status(colibri_error *)> &call) {
  colibri_error error = COLIBRI_ERROR_INIT;
  const colibri_status status = call(&error);
  INFO(error.message);
  CHECK(std::string(colibri_status_name(status)) == colibri_status_name(expected));
  CHECK(error.code == status);
  CHECK((error.message[0] == '\0') == (status == COLIBRI_OK));
  return error.message;
}

}  // namespace capi_test
