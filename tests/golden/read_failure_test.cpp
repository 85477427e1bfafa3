// SPDX-License-Identifier: Apache-2.0
//
// A file that is cut while the model is open fails the rows that need the lost expert, and nobody
// else.

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/golden/engine.h"
#include "tests/golden/golden_case.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

// A copy of a case's model in a folder of its own, removed at the end.
class ModelCopy {
 public:
  explicit ModelCopy(const std::string &source)
      : path_(std::filesystem::temp_directory_path() /
              std::filesystem::path("colibri-cut-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::copy(source, path_, std::filesystem::copy_options::recursive);
  }
  ~ModelCopy() { std::filesystem::remove_all(path_); }
  ModelCopy(const ModelCopy &) = delete;
  ModelCopy &operator=(const ModelCopy &) = delete;
  std::string path() const { return path_.string(); }
  std::string file(const std::string &name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::vector<ForwardRow> make_rows(const std::vector<int32_t> &tokens, uint8_t *slot,
                                  size_t first_logits_row) {
  std::vector<ForwardRow> rows(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    rows[i] = {tokens[i], static_cast<uint32_t>(i), slot,
               static_cast<int32_t>(first_logits_row + i)};
  }
  return rows;
}

}  // namespace

TEST_CASE("a file cut while open fails only the rows that need what was lost") {
  const GoldenCase golden("glm_moe_dsa-sparse");
  const ModelCopy copy(golden.path());
  Engine engine(copy.path(), {});
  // One token is computed from the whole file; its experts are then resident.
  const std::vector<int32_t> safe = {golden.prompt(2)[0]};
  const std::vector<float> expected = engine.run(safe, 0, 0);
  for (const ShardFile &shard : engine.snapshot().index().files())
    std::filesystem::resize_file(copy.file(shard.name), 64);

  Buffer other_slot(engine.model().kv_layout().slot_bytes(), "the failing slot");
  std::vector<ForwardRow> rows = make_rows(golden.prompt(2), other_slot.data(), 1);
  const std::vector<ForwardRow> safe_rows = make_rows(safe, engine.slot(), 0);
  rows.insert(rows.begin(), safe_rows.begin(), safe_rows.end());
  std::vector<Status> status(rows.size());
  engine.model().forward(rows, engine.workspace(), status);

  REQUIRE(status[0].is_ok());
  CHECK(std::memcmp(engine.model().logits(engine.workspace(), 0), expected.data(),
                    expected.size() * sizeof(float)) == 0);
  size_t n_failed = 0;
  for (size_t i = 1; i < status.size(); ++i) {
    n_failed += status[i].is_ok() ? 0 : 1;
    if (i > 1 && !status[i - 1].is_ok())
      CHECK_FALSE(status[i].is_ok());  // rows behind a failed one fail too
    if (!status[i].is_ok()) CHECK(status[i].code() == StatusCode::kIo);
  }
  CHECK(n_failed > 0);
  // The engine stays usable.
  CHECK(engine.run(safe, 0, 0) == expected);
}

}  // namespace colibri::test
