// SPDX-License-Identifier: Apache-2.0
//
// Reads that fail: an error for who needs the expert, nothing lost for others, and another try
// later.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/residency/cache_driver.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;
namespace fs = std::filesystem;

// A copy of a test snapshot that may be damaged.
class SnapshotCopy {
 public:
  explicit SnapshotCopy(const std::string &name) {
    std::string pattern = (fs::temp_directory_path() / "colibri_XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    fs::copy(fs::path(COLIBRI_TEST_DATA) / name, folder_, fs::copy_options::recursive);
  }
  ~SnapshotCopy() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  SnapshotCopy(const SnapshotCopy &) = delete;
  SnapshotCopy &operator=(const SnapshotCopy &) = delete;
  const fs::path &folder() const { return folder_; }

 private:
  fs::path folder_;
};

bool ends_after(const WeightSource &source, uint32_t file, uint64_t size) {
  const auto is_cut = [&](const TensorSpan &span) {
    return span.bytes != 0 && span.file == file && span.offset + span.bytes > size;
  };
  return is_cut(source.values) || is_cut(source.scales);
}

}  // namespace

TEST_CASE("a failed read fails that expert alone and is tried again by a later visit") {
  SyntheticModel model(SyntheticShape{{16}, 8, 24});
  for (const char *matrix : {"gate", "up", "down"}) {
    ExpertCache cache(model.index, model.sources, cache_options(3 * model.expert_bytes(0)));
    ExpertCache::Visit visit(cache);
    model.control->fail_at(model.offset_of({0, 4}, matrix));
    const VisitOutcome outcome = run_visit(visit, 0, {2, 3, 4, 5, 6});
    REQUIRE(outcome.experts.size() == 5);
    REQUIRE(outcome.failed == std::vector<int32_t>{4});
    REQUIRE(outcome.n_wrong == 0);
    REQUIRE(outcome.messages[0].find(std::string("layers.0.experts.4.") + matrix) !=
            std::string::npos);
    REQUIRE(outcome.messages[0].find("synthetic.safetensors") != std::string::npos);
    REQUIRE_FALSE(cache.is_resident({0, 4}));
    REQUIRE(cache.stats().read_failures == 1);
    REQUIRE(cache.stats().resident_bytes <= 3 * model.expert_bytes(0));

    model.control->stop_failing();
    REQUIRE(run_visit(visit, 0, {4}).failed.empty());
    REQUIRE(cache.is_resident({0, 4}));
  }
}

TEST_CASE("an expert that fails is tried once per visit") {
  SyntheticModel model(SyntheticShape{{16}, 4, 24});
  model.control->fail_at(model.offset_of({0, 1}, "gate"));
  ExpertCache cache(model.index, model.sources, cache_options(model.expert_bytes(0)));
  ExpertCache::Visit visit(cache);
  for (uint64_t n = 1; n <= 3; ++n) {
    REQUIRE(run_visit(visit, 0, {0, 1, 2}).failed.size() == 1);
    REQUIRE(model.control->n_reads_at(model.offset_of({0, 1}, "gate")) == n);
  }
}

TEST_CASE("all reads failing leaves an empty cache that still works afterwards") {
  SyntheticModel model(SyntheticShape{{16}, 8, 24});
  for (uint32_t expert = 0; expert < 8; ++expert) {
    model.control->fail_at(model.offset_of({0, expert}, "up"));
  }
  ExpertCache cache(model.index, model.sources, cache_options(2 * model.expert_bytes(0)));
  ExpertCache::Visit visit(cache);
  REQUIRE(run_visit(visit, 0, {0, 1, 2, 3, 4, 5, 6, 7}).failed.size() == 8);
  REQUIRE(cache.stats().resident_bytes == 0);
  REQUIRE(cache.stats().resident_experts == 0);
  model.control->stop_failing();
  const VisitOutcome outcome = run_visit(visit, 0, {0, 1, 2, 3, 4, 5, 6, 7});
  REQUIRE(outcome.failed.empty());
  REQUIRE(outcome.n_wrong == 0);
}

TEST_CASE("two visits that wait for a read that fails both hear of it") {
  SyntheticModel model(SyntheticShape{{16}, 4, 24});
  model.control->fail_at(model.offset_of({0, 2}, "down"));
  ExpertCache cache(model.index, model.sources, cache_options(4 * model.expert_bytes(0)));
  ExpertCache::Visit first(cache);
  ExpertCache::Visit second(cache);
  model.control->hold();
  first.begin(0, std::vector<int32_t>{2});
  second.begin(0, std::vector<int32_t>{2});
  model.control->resume();
  for (ExpertCache::Visit *visit : {&first, &second}) {
    const auto ready = visit->next();
    REQUIRE(ready.size() == 1);
    REQUIRE(ready[0].status.code() == StatusCode::kIo);
    REQUIRE(ready[0].weights.gate.values == nullptr);
    visit->release();
    REQUIRE(visit->next().empty());
  }
}

TEST_CASE("a file cut while it is open fails the experts behind the cut and no others") {
  const SnapshotCopy copy("glm_moe_dsa-int4g64");
  const Snapshot snapshot = Snapshot::open(copy.folder().string());
  const ModelSources &sources = snapshot.sources();
  ExpertCache cache(snapshot, cache_options(ExpertCache::largest_packed_expert_bytes(sources)));
  // Cut the file of the last layer's first expert in the middle of what experts use of it.
  const uint32_t last = static_cast<uint32_t>(sources.layers.size() - 1);
  const uint32_t file = sources.layers[last].experts[0].up.values.file;
  const ShardFile &shard = snapshot.index().files()[file];
  const uint64_t size = shard.reader->size() / 2;
  fs::resize_file(copy.folder() / shard.name, size);

  ExpertCache::Visit visit(cache);
  uint64_t n_failed = 0;
  uint64_t n_read = 0;
  for (uint32_t layer = 0; layer <= last; ++layer) {
    const auto &experts = sources.layers[layer].experts;
    std::vector<int32_t> ids;
    for (size_t i = 0; i < experts.size(); ++i) ids.push_back(static_cast<int32_t>(i));
    visit.begin(layer, ids);
    for (auto ready = visit.next(); !ready.empty(); ready = visit.next()) {
      for (const auto &item : ready) {
        const ExpertSource &source = experts[static_cast<size_t>(item.expert)];
        const bool is_cut = ends_after(source.gate, file, size) ||
                            ends_after(source.up, file, size) ||
                            ends_after(source.down, file, size);
        INFO("layer " << layer << " expert " << item.expert << ": " << item.status.message());
        REQUIRE(item.status.code() == (is_cut ? StatusCode::kIo : StatusCode::kOk));
        if (is_cut)
          REQUIRE(std::string(item.status.message()).find(".experts.") != std::string::npos);
        ++(is_cut ? n_failed : n_read);
      }
      visit.release();
    }
  }
  REQUIRE(n_failed > 0);
  REQUIRE(n_read > 0);
}
