// SPDX-License-Identifier: Apache-2.0
//
// Every sized struct of the interface with sizes of no version, and with a longer tail than the
// library knows.

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;

namespace {

// A struct followed by room for fields of a later version.
template <typename T>
struct WithTail {
  T known;
  uint8_t tail[16];
};

// `call` takes the struct; `value` is one that it accepts.
template <typename T>
void check_sizes(const T &value, const std::function<colibri_status(T *)> &call) {
  WithTail<T> given{};
  given.known = value;
  CHECK(call(&given.known) == COLIBRI_OK);
  for (const uint32_t size : {0u, 1u, 4u, 7u}) {
    given.known = value;
    given.known.struct_size = size;
    INFO("struct_size " << size);
    CHECK(call(&given.known) == COLIBRI_E_ARGUMENT);
  }
}

// For options: the tail must be zero.
template <typename T>
void check_options(const T &value, const std::function<colibri_status(T *)> &call) {
  check_sizes<T>(value, call);
  WithTail<T> given{};
  given.known = value;
  given.known.struct_size = sizeof given;
  CHECK(call(&given.known) == COLIBRI_OK);
  given.tail[15] = 1;
  CHECK(call(&given.known) == COLIBRI_E_ARGUMENT);
}

template <typename T>
T sized() {
  T value{};
  value.struct_size = sizeof value;
  return value;
}

// A folder that does not exist; what is made there is removed again.
std::string result_path() {
  return (std::filesystem::temp_directory_path() /
          ("colibri_struct_size_" + std::to_string(getpid())))
      .string();
}

colibri_status convert_and_remove(const colibri_convert_options *options,
                                  colibri_convert_report *report) {
  const std::string source = golden_model("glm_moe_dsa-int4row");
  const colibri_status status =
      colibri_convert(source.c_str(), result_path().c_str(), options, report, nullptr);
  std::filesystem::remove_all(result_path());
  return status;
}

colibri_status synthesise_and_remove(const colibri_synthesis_options *options) {
  const colibri_status status =
      colibri_snapshot_synthesise(result_path().c_str(), options, nullptr);
  std::filesystem::remove_all(result_path());
  return status;
}

}  // namespace

TEST_CASE("options of a wrong size, or with an unknown setting in their tail, are refused") {
  const std::string path = tiny_model();
  check_options<colibri_model_options>(small_options(), [&](colibri_model_options *options) {
    colibri_plan plan = sized<colibri_plan>();
    return colibri_model_plan(path.c_str(), options, &plan, nullptr);
  });
  const Model model = open_tiny();
  colibri_scheduler_options scheduler_options;
  colibri_scheduler_options_init(&scheduler_options, sizeof scheduler_options);
  check_options<colibri_scheduler_options>(
      scheduler_options, [&](colibri_scheduler_options *options) {
        colibri_scheduler *scheduler = nullptr;
        const colibri_status status =
            colibri_scheduler_create(model.get(), options, &scheduler, nullptr);
        if (status == COLIBRI_OK)
          CHECK(colibri_scheduler_destroy(scheduler, nullptr) == COLIBRI_OK);
        return status;
      });
  const Scheduler scheduler = make_scheduler(model.get());
  const std::vector<int32_t> prompt = {1, 2};
  check_options<colibri_request_options>(
      request_of(prompt, 1), [&](colibri_request_options *options) {
        colibri_request_id request = 0;
        return colibri_scheduler_submit(scheduler.get(), options, &request, nullptr, nullptr);
      });
  check_options<colibri_convert_options>(
      sized<colibri_convert_options>(),
      [](colibri_convert_options *options) { return convert_and_remove(options, nullptr); });
  colibri_synthesis_options tiny = sized<colibri_synthesis_options>();
  tiny.shape = "colibri-tiny";
  tiny.n_layers = 1;
  check_options<colibri_synthesis_options>(tiny, synthesise_and_remove);
}

TEST_CASE("measuring refuses options and results of a wrong size") {
  const uint32_t rows[] = {1};
  colibri_measure_options quick;
  colibri_measure_options_init(&quick, sizeof quick);
  quick.columns = quick.depth = 64;
  quick.min_runs = 1;
  quick.memory_bytes = 1 << 20;
  const auto measure = [&](colibri_measure_options *options, colibri_machine_figures *machine) {
    colibri_kernel_figures figures[1];
    return colibri_measure_kernels(options, rows, 1, machine, figures, sizeof figures[0], nullptr);
  };
  check_options<colibri_measure_options>(quick, [&](colibri_measure_options *options) {
    colibri_machine_figures machine = sized<colibri_machine_figures>();
    return measure(options, &machine);
  });
  check_sizes<colibri_machine_figures>(
      sized<colibri_machine_figures>(),
      [&](colibri_machine_figures *machine) { return measure(&quick, machine); });
}

TEST_CASE("results of a wrong size are refused") {
  const std::string path = tiny_model();
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  const colibri_model_options options = small_options();
  check_sizes<colibri_plan>(sized<colibri_plan>(), [&](colibri_plan *plan) {
    return colibri_model_plan(path.c_str(), &options, plan, nullptr);
  });
  check_sizes<colibri_model_facts>(sized<colibri_model_facts>(), [&](colibri_model_facts *facts) {
    return colibri_model_get_facts(model.get(), facts, nullptr);
  });
  check_sizes<colibri_model_stats>(sized<colibri_model_stats>(), [&](colibri_model_stats *stats) {
    return colibri_model_get_stats(model.get(), stats, nullptr);
  });
  check_sizes<colibri_scheduler_stats>(
      sized<colibri_scheduler_stats>(), [&](colibri_scheduler_stats *stats) {
        return colibri_scheduler_get_stats(scheduler.get(), stats, nullptr);
      });
  check_sizes<colibri_step_result>(sized<colibri_step_result>(), [&](colibri_step_result *result) {
    return colibri_scheduler_step(scheduler.get(), COLIBRI_STEP_NOWAIT, result, nullptr);
  });
  check_sizes<colibri_convert_report>(
      sized<colibri_convert_report>(),
      [](colibri_convert_report *report) { return convert_and_remove(nullptr, report); });
  const std::string source = golden_model("glm_moe_dsa-int4row");
  REQUIRE(colibri_convert(source.c_str(), result_path().c_str(), nullptr, nullptr, nullptr) ==
          COLIBRI_OK);
  check_sizes<colibri_verify_report>(
      sized<colibri_verify_report>(), [](colibri_verify_report *report) {
        return colibri_snapshot_verify(result_path().c_str(), 1, nullptr, nullptr, report, nullptr);
      });
  std::filesystem::remove_all(result_path());
}
