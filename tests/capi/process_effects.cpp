// SPDX-License-Identifier: Apache-2.0
//
// A program that compares its own process before and after a whole life of a model: locale, signal
// handlers, working directory, resource limits, float mode, environment, affinity, threads, open
// files. Both standard streams are caught and must stay empty. Exit status 0: nothing changed.

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "colibri/colibri.h"

extern char **environ;

namespace {

int n_failures = 0;
FILE *report = nullptr;  // the real standard error

void check(bool condition, const char *what) {
  if (condition) return;
  ++n_failures;
  std::fprintf(report, "changed or failed: %s\n", what);
}

uint32_t float_mode() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3fu;  // without the sticky exception flags
#else
  return 0;
#endif
}

size_t count_entries(const char *directory) {
  DIR *opened = opendir(directory);
  size_t count = 0;
  while (readdir(opened) != nullptr) ++count;
  closedir(opened);
  return count;
}

struct Snapshot {
  std::string locale;
  std::string directory;
  std::vector<std::string> environment;
  std::vector<struct sigaction> actions;
  sigset_t mask;
  std::vector<rlimit> limits;
  cpu_set_t affinity;
  mode_t umask_bits;
  uint32_t float_bits;
  size_t n_files;

  static Snapshot take() {
    Snapshot result;
    result.locale = std::setlocale(LC_ALL, nullptr);
    char buffer[4096];
    result.directory = getcwd(buffer, sizeof(buffer));
    for (char **entry = environ; *entry != nullptr; ++entry) result.environment.push_back(*entry);
    for (int number = 1; number < 65; ++number) {
      struct sigaction action;
      std::memset(&action, 0, sizeof(action));
      sigaction(number, nullptr, &action);
      result.actions.push_back(action);
    }
    sigemptyset(&result.mask);
    pthread_sigmask(SIG_BLOCK, nullptr, &result.mask);
    for (int number = 0; number < RLIM_NLIMITS; ++number) {
      rlimit limit{};
      getrlimit(static_cast<__rlimit_resource_t>(number), &limit);
      result.limits.push_back(limit);
    }
    CPU_ZERO(&result.affinity);
    sched_getaffinity(0, sizeof(result.affinity), &result.affinity);
    result.umask_bits = umask(0);
    umask(result.umask_bits);
    result.float_bits = float_mode();
    result.n_files = count_entries("/proc/self/fd");
    return result;
  }
};

void compare(const Snapshot &before, const Snapshot &after) {
  check(before.locale == after.locale, "locale");
  check(before.directory == after.directory, "working directory");
  check(before.environment == after.environment, "environment");
  for (size_t i = 0; i < before.actions.size(); ++i) {
    check(before.actions[i].sa_handler == after.actions[i].sa_handler &&
              before.actions[i].sa_flags == after.actions[i].sa_flags,
          "signal handler");
  }
  for (int number = 1; number < 65; ++number) {
    check(sigismember(&before.mask, number) == sigismember(&after.mask, number), "signal mask");
  }
  for (size_t i = 0; i < before.limits.size(); ++i) {
    check(before.limits[i].rlim_cur == after.limits[i].rlim_cur &&
              before.limits[i].rlim_max == after.limits[i].rlim_max,
          "resource limit");
  }
  check(CPU_EQUAL(&before.affinity, &after.affinity) != 0, "affinity of the calling thread");
  check(before.umask_bits == after.umask_bits, "umask");
  check(before.float_bits == after.float_bits, "float mode");
}

void drop_text(void *, int32_t, const char *) {}

// Open, generate, fail in several ways, close.
void live(const char *path, const Snapshot &before) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_model_options options;
  colibri_model_options_init(&options, sizeof(options));
  options.n_threads = 3;
  options.n_slots = 2;
  options.log = drop_text;
  options.log_level = COLIBRI_LOG_DEBUG;
  colibri_model *model = nullptr;
  check(colibri_model_open("/nonexistent", nullptr, &model, &error) == COLIBRI_E_NOT_FOUND,
        "refusal");
  check(colibri_model_open(path, &options, &model, &error) == COLIBRI_OK, error.message);
  compare(before, Snapshot::take());
  colibri_scheduler *scheduler = nullptr;
  check(colibri_scheduler_create(model, nullptr, &scheduler, &error) == COLIBRI_OK, error.message);
  const int32_t prompt[] = {11, 12, 13};
  colibri_request_options request;
  colibri_request_options_init(&request, sizeof(request));
  request.prompt_ids = prompt;
  request.n_prompt_ids = 3;
  request.max_tokens = 20;
  colibri_request_id id = 0;
  check(colibri_scheduler_submit(scheduler, &request, &id, nullptr, &error) == COLIBRI_OK,
        error.message);
  for (int i = 0; i < 30; ++i) {
    check(colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, nullptr, &error) == COLIBRI_OK,
          error.message);
  }
  compare(before, Snapshot::take());

  // Idle threads sleep: with nothing to do, half a second costs next to no processor time.
  const std::clock_t busy = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  check(static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC < 0.1, "idle threads burn time");

  check(colibri_scheduler_destroy(scheduler, &error) == COLIBRI_OK, error.message);
  check(colibri_model_close(model, &error) == COLIBRI_OK, error.message);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  report = fdopen(dup(STDERR_FILENO), "w");
  FILE *caught = std::tmpfile();
  dup2(fileno(caught), STDOUT_FILENO);
  dup2(fileno(caught), STDERR_FILENO);

#if defined(__x86_64__)
  _mm_setcsr((_mm_getcsr() & ~0x6000u) | 0x2000u |
             0x8040u);  // an unusual host: round down, no subnormals
#endif
  const Snapshot before = Snapshot::take();
  live(argv[1], before);
  const Snapshot after = Snapshot::take();
  compare(before, after);
  check(before.n_files == after.n_files, "open files after close");

  std::fflush(nullptr);
  struct stat information {};
  fstat(fileno(caught), &information);
  check(information.st_size == 0, "something was printed");
  return n_failures == 0 ? 0 : 1;
}
