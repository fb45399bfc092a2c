#include "bench/perf/world.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string_view>

#include "bench/common/errors.h"

namespace bench {

namespace {

// What a process says of its host.
struct Card {
  std::array<char, 64> host{};
  std::array<char, 40> boot{};  // of the kernel, which has one clock
};

Card ownCard() {
  Card card;
  (void)gethostname(card.host.data(), card.host.size() - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string_view text = boot.empty() ? std::string_view(card.host.data()) : boot;
  std::copy_n(text.begin(), std::min(text.size(), card.boot.size() - 1), card.boot.begin());
  return card;
}

// Nobody else's name, so that engines of later versions are known without this program.
bool joinsByEnvironment(int32_t transport) {
  constexpr int32_t kOthers[] = {sparsecollTransportThreads, sparsecollTransportNccl, sparsecollTransportEngine,
                                 sparsecollTransportSimulated};
  return std::ranges::find(kOthers, transport) == std::end(kOthers);
}

}  // namespace

uint64_t World::total(uint64_t own) {
  std::vector<uint64_t> all(static_cast<size_t>(ranks()));
  gather(&own, sizeof own, all.data());
  return std::accumulate(all.begin(), all.end(), uint64_t{0});
}

const std::vector<World::Place>& World::places() {
  if (!places_.empty()) return places_;
  std::vector<Card> cards(static_cast<size_t>(ranks()));
  cards[static_cast<size_t>(rank())] = ownCard();
  share(cards);
  for (const Card& card : cards) {
    const auto first = std::ranges::find(cards, card.boot, &Card::boot);
    places_.push_back({card.host.data(), static_cast<int>(first - cards.begin())});
  }
  return places_;
}

std::vector<Launcher> launchers() {
  std::vector<Launcher> all = {{kThreadsName, "--ranks threads:P", sparsecollTransportThreads, nullptr}};
#ifdef SPARSECOLL_PERF_MPI
  all.push_back({"mpi", fmt::format("mpirun -np P {} --transport mpi", program_invocation_short_name),
                 sparsecollTransportEngine, joinMpi});
#endif
  constexpr std::string_view kUnknown = "unknown";
  for (int32_t transport = 0; sparsecollTransportName(transport) != kUnknown; ++transport) {
    if (!joinsByEnvironment(transport)) continue;
    const std::string name = sparsecollTransportName(transport);
    const char* const program = program_invocation_short_name;
    all.push_back({name, fmt::format("srun, torchrun or sparsecoll-run -n P {} --transport {}", program, name),
                   transport, joinLaunched});
  }
  return all;
}

const Launcher& launcherOf(const std::string& name) {
  static const std::vector<Launcher> all = launchers();
  std::string known;
  for (const Launcher& one : all) {
    if (one.name == name) return one;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", one.name, one.usage);
  }
  throw UsageError(fmt::format("--transport {}: this build has {}", name, known));
}

}  // namespace bench
