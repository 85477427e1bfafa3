// SPDX-License-Identifier: Apache-2.0
//
// The main program of every Catch2 test, and what LeakSanitizer must not take for a leak: a task that
// oneTBB was given but had not started when the process ended is still in TBB's memory, which the
// sanitizer does not search.

#if COLIBRI_CATCH_MAJOR == 3
#include <catch2/catch_session.hpp>
int main(int argc, char **argv) {
  return Catch::Session().run(argc, argv);
}
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif

#if defined(__SANITIZE_ADDRESS__)
extern "C" const char *__lsan_default_suppressions();
extern "C" const char *__lsan_default_suppressions() {
  return "leak:colibri::ThreadPool::Arena\n";
}
#endif
