// Prints the instruction set in use and a hash of every scenario. isa_equality.sh compares runs under SPARSECOLL_ISA,
// which the library reads once a process.
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/oracle/scenario.h"

using namespace sparsecoll::test;

int main() {
  const std::string info = sparsecollGetBuildInfo();
  const std::string key = "\"isa\": \"";
  const size_t at = info.find(key);
  if (at == std::string::npos) return 1;
  const size_t begin = at + key.size();
  std::printf("isa %s\n", info.substr(begin, info.find('"', begin) - begin).c_str());
  for (const Scenario& scenario : scenarios()) {
    const Hashes hashes = runScenario(scenario);
    if (!hashes.ran) return 1;
    std::printf("%s", scenario.name.c_str());
    for (const uint64_t hash : hashes.outs) std::printf(" %016llx", static_cast<unsigned long long>(hash));
    std::printf(" %016llx\n", static_cast<unsigned long long>(hashes.residuals));
  }
  return 0;
}
