// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/convert.h: conversion and verification of packed snapshots.

#include "colibri/convert.h"

#include <cstdio>

#include "lib/capi/guard.h"
#include "lib/capi/long_call.h"
#include "lib/capi/option_checks.h"
#include "lib/capi/out_buffers.h"
#include "lib/capi/sized_struct.h"
#include "lib/convert/converter.h"
#include "lib/convert/verifier.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr uint64_t kLeastShardBytes = 1ull << 20;
constexpr uint64_t kDefaultShardBytes = 4ull << 30;
constexpr uint32_t kDefaultGroup = 64;

// Which of the known formats a field allows is checked with the others (check_options).
TargetFormat read_target(const char *field, int32_t value, TargetFormat default_target) {
  switch (value) {
    case COLIBRI_WEIGHTS_DEFAULT:
      return default_target;
    case COLIBRI_WEIGHTS_KEEP:
      return TargetFormat::kKeep;
    case COLIBRI_WEIGHTS_BF16:
      return TargetFormat::kBF16;
    case COLIBRI_WEIGHTS_INT8:
      return TargetFormat::kInt8;
    case COLIBRI_WEIGHTS_INT4:
      return TargetFormat::kInt4;
    default:
      throw_error(StatusCode::kArgument,
                  "%s is %d; this version knows 0 (default), 1 (keep), 2 (bf16), 3 (int8) and 4 "
                  "(int4)",
                  field, value);
  }
}

ScaleSearch read_search(int32_t scales) {
  switch (scales) {
    case COLIBRI_SCALES_DEFAULT:
    case COLIBRI_SCALES_SEARCH:
      return ScaleSearch::kSearch;
    case COLIBRI_SCALES_ABSMAX:
      return ScaleSearch::kAbsmax;
    default:
      throw_error(StatusCode::kArgument,
                  "scales is %d; this version knows 0 (default), 1 (search) and 2 (absmax)",
                  scales);
  }
}

uint64_t read_shard_bytes(uint64_t bytes) {
  if (bytes == 0) return kDefaultShardBytes;
  if (bytes >= kLeastShardBytes) return bytes;
  throw_error(
      StatusCode::kArgument, "max_shard_bytes is %llu; must be at least %llu, or 0 for the default",
      static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(kLeastShardBytes));
}

ConversionOptions read_convert_options(const colibri_convert_options *given) {
  const colibri_convert_options options = read_struct(given, "options");
  ConversionOptions result;
  result.experts = read_target("experts", options.experts, TargetFormat::kInt4);
  result.dense = read_target("dense", options.dense, TargetFormat::kInt8);
  result.embedding = read_target("embedding", options.embedding, TargetFormat::kKeep);
  result.head = read_target("head", options.head, TargetFormat::kKeep);
  result.group = options.group == 0 ? kDefaultGroup : options.group;
  result.search = read_search(options.scales);
  result.n_threads = read_n_threads(options.n_threads);
  result.resumes = read_flag("resume", options.resume);
  require_zero("reserved", options.reserved);
  result.max_shard_bytes = read_shard_bytes(options.max_shard_bytes);
  result.progress = make_progress(options.progress, options.progress_user);
  check_options(result);
  return result;
}

colibri_convert_report to_public(const ConversionReport &report) noexcept {
  colibri_convert_report result{};
  result.source_bytes = report.source_bytes;
  result.result_bytes = report.result_bytes;
  result.n_tensors = report.n_tensors;
  result.n_kept_matrices = report.n_kept_matrices;
  result.n_quantised_matrices = report.n_quantised_matrices;
  result.n_resumed_tensors = report.n_resumed_tensors;
  result.relative_error = report.relative_error;
  return result;
}

colibri_verify_report to_public(const VerifyReport &report) {
  colibri_verify_report result{};
  result.n_damaged = static_cast<uint32_t>(report.damaged.size());
  result.n_tensors = report.n_tensors;
  result.n_files = report.n_files;
  result.bytes = report.bytes;
  if (!report.damaged.empty()) {
    const std::string name = printable(report.damaged.front(), sizeof result.first_damaged - 1);
    std::snprintf(result.first_damaged, sizeof result.first_damaged, "%s", name.c_str());
  }
  return result;
}

}  // namespace
}  // namespace colibri

void colibri_convert_options_init(colibri_convert_options *options, size_t struct_size) {
  colibri::fill_defaults(options, struct_size);
}

colibri_status colibri_convert(const char *source, const char *destination,
                               const colibri_convert_options *options,
                               colibri_convert_report *report, colibri_error *error) {
  return colibri::guard_computing(error, [&] {
    colibri::require_pointer(source, "source");
    colibri::require_pointer(destination, "destination");
    const uint32_t out_bytes =
        report != nullptr ? colibri::check_result(report, "report") : uint32_t{0};
    const colibri::ConversionReport done =
        colibri::convert_snapshot(source, destination, colibri::read_convert_options(options));
    if (report != nullptr) colibri::write_result(colibri::to_public(done), out_bytes, report);
  });
}

colibri_status colibri_snapshot_verify(const char *path, uint32_t n_threads,
                                       colibri_progress_fn progress, void *progress_user,
                                       colibri_verify_report *report, colibri_error *error) {
  return colibri::guard(error, [&] {
    colibri::require_pointer(path, "path");
    const uint32_t out_bytes = colibri::check_result(report, "report");
    const colibri::VerifyReport found = colibri::verify_snapshot(
        path, colibri::read_n_threads(n_threads), colibri::make_progress(progress, progress_user));
    colibri::write_result(colibri::to_public(found), out_bytes, report);
  });
}
