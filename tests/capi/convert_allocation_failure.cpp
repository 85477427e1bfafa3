// SPDX-License-Identifier: Apache-2.0
//
// A program in which one allocation after the other is refused while a model is converted and the
// result is verified. Every call must end in success or COLIBRI_E_MEMORY; what a refusal left
// behind must be gone on with, to the same bytes. Exit status 0: it was, for every refused call
// that was tried.
//
//     convert_allocation_failure MODEL FOLDER N_TRIES

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "colibri/colibri.h"
#include "tests/capi/counted_allocator.h"

namespace {

namespace fs = std::filesystem;
using Contents = std::map<std::string, std::string>;

uint64_t n_refusals = 0;  // calls that said there was no memory
int n_failures = 0;

void fail(const char *call, const char *reason) {
  ++n_failures;
  std::fprintf(stderr, "refused call %" PRIu64 ": %s: %s\n", counted_allocator::refused_call.load(),
               call, reason);
}

// True if the call succeeded. Only memory may fail.
bool succeeds(colibri_status status, const char *call, const colibri_error &error) {
  if (status == COLIBRI_OK) return true;
  // The C library also allocates, and then it is a read or write that fails for lack of memory.
  const bool is_io = status == COLIBRI_E_IO && std::strstr(error.message, "errno 12") != nullptr;
  if (status == COLIBRI_E_MEMORY || is_io) {
    ++n_refusals;
  } else {
    fail(call, error.message);
  }
  return false;
}

Contents read_folder(const fs::path &path) {
  Contents files;
  for (const auto &entry : fs::directory_iterator(path)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(stream), {}};
  }
  return files;
}

bool convert(const std::string &source, const std::string &result, bool resumes) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_convert_options options;
  colibri_convert_options_init(&options, sizeof options);
  options.n_threads = 1;
  options.resume = resumes ? 1 : 0;
  return succeeds(colibri_convert(source.c_str(), result.c_str(), &options, nullptr, &error),
                  "convert", error);
}

bool verify(const std::string &result) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_verify_report report{};
  report.struct_size = sizeof report;
  if (!succeeds(colibri_snapshot_verify(result.c_str(), 1, nullptr, nullptr, &report, &error),
                "verify", error)) {
    return false;
  }
  if (report.n_damaged != 0) fail("verify", report.first_damaged);
  return true;
}

// Runs `body` while a call is refused; the number of calls.
template <typename Body>
uint64_t run_counted(uint64_t refused_call, Body body) {
  counted_allocator::refused_call = refused_call;
  counted_allocator::n_calls = 0;
  counted_allocator::is_armed = true;
  body();
  counted_allocator::is_armed = false;
  return counted_allocator::n_calls;
}

uint64_t convert_refused(const std::string &source, const std::string &result, uint64_t call) {
  fs::remove_all(result);
  fs::remove_all(result + ".partial");
  return run_counted(call, [&] { convert(source, result, false); });
}

// What a refusal left is gone on with.
void require_result(const std::string &source, const std::string &result,
                    const Contents &expected) {
  const bool is_begun = fs::exists(result + ".partial");
  if (!fs::exists(result) && !convert(source, result, is_begun)) fail("convert", "no second time");
  if (fs::exists(result) && read_folder(result) != expected) fail("convert", "other bytes");
}

// Tries every n-th of the calls.
template <typename Try>
void try_calls(uint64_t n_calls, uint64_t n_tries, Try attempt) {
  const uint64_t stride = std::max<uint64_t>(n_calls / n_tries, 1);
  const uint64_t before = n_refusals;
  uint64_t n_tried = 0;
  for (uint64_t call = 0; call < n_calls; call += stride, ++n_tried) attempt(call);
  std::printf("%" PRIu64 " of %" PRIu64 " allocations refused, %" PRIu64
              " calls ended for lack of memory\n",
              n_tried, n_calls, n_refusals - before);
  // Some refusals are survived without a trace; most cannot be.
  if ((n_refusals - before) * 2 < n_tried) fail("all", "too few refusals are seen");
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  const std::string source = argv[1];
  const std::string result = std::string(argv[2]) + "/packed";
  const uint64_t n_tries = std::strtoull(argv[3], nullptr, 10);
  fs::create_directories(argv[2]);
  convert_refused(source, result, UINT64_MAX);  // what is made once in a process
  const uint64_t n_convert_calls = convert_refused(source, result, UINT64_MAX);
  if (n_failures != 0 || n_refusals != 0 || !fs::exists(result)) return 3;
  const Contents expected = read_folder(result);
  try_calls(n_convert_calls, n_tries, [&](uint64_t call) {
    convert_refused(source, result, call);
    require_result(source, result, expected);
  });
  const uint64_t n_verify_calls = run_counted(UINT64_MAX, [&] { verify(result); });
  try_calls(n_verify_calls, n_tries,
            [&](uint64_t call) { run_counted(call, [&] { verify(result); }); });
  fs::remove_all(argv[2]);
  return n_failures == 0 ? 0 : 1;
}
