// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/sliced_tasks.h"

#include <vector>

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {

TEST_CASE("slices are made whole, one after another, and handed on in order") {
  for (const uint32_t n_threads : {1u, 3u}) {
    ThreadPool threads(n_threads);
    for (const size_t n_items : {size_t{0}, size_t{1}, size_t{9}, size_t{10}, size_t{23}}) {
      std::vector<size_t> slice(5, 999);
      std::vector<size_t> result;
      run_slices(
          threads, n_items, 5,
          [&](size_t item, size_t place, uint32_t worker) {
            REQUIRE(worker < threads.n_threads());
            slice[place] = item;
            return Status();
          },
          [&](size_t first, size_t n) {
            CHECK(first == result.size());
            result.insert(result.end(), slice.begin(), slice.begin() + static_cast<ptrdiff_t>(n));
          });
      REQUIRE(result.size() == n_items);
      for (size_t i = 0; i < n_items; ++i) CHECK(result[i] == i);
    }
  }
}

TEST_CASE("the first item that fails is the one that is reported, and its slice is not handed on") {
  ThreadPool threads(3);
  size_t n_emitted = 0;
  expect_failure(StatusCode::kIo, {"item 12"}, [&] {
    run_slices(
        threads, 40, 5,
        [](size_t item, size_t, uint32_t) {
          return item >= 12 ? make_status(StatusCode::kIo, "item %zu", item) : Status();
        },
        [&](size_t, size_t n) { n_emitted += n; });
  });
  CHECK(n_emitted == 10);
}

TEST_CASE("a slice holds some megabytes, and several items for every thread") {
  CHECK(slice_items(1024, 1) == kSliceBytes / 1024);
  CHECK(slice_items(kSliceBytes, 1) == 4);
  CHECK(slice_items(2 * kSliceBytes, 8) == 32);
}

}  // namespace colibri::test
