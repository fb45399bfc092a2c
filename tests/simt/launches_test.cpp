// How many kernels a step of one rank takes, copies included. On a device each of them costs a microsecond or two,
// whatever it does.
#include <map>
#include <string>

#include "tests/device/checks.h"
#include "tests/simt/simt.h"
#include "tests/support/group.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 70001;  // more than a block cuts alone

const std::map<std::string, uint64_t> kMost = {
    {"topka", 17},       {"threshold", 22},   {"micro", 35},         {"exdyna", 36},     {"deft", 29},
    {"sage", 26},        {"sidco-e", 20},     {"sidco-gp", 20},      {"sidco-p", 20},    {"gaussiank", 20},
    {"redsync", 20},     {"cltk", 24},        {"randomk", 12},       {"chunk-topk", 14}, {"gtopk", 20},
    {"oktopk", 46},      {"sparcml-rd", 20},  {"sparcml-split", 35}, {"topkdsa", 35},    {"spardl", 25},
    {"spardl-rsag", 25}, {"spardl-bsag", 25}, {"dgc", 23},           {"rtopk", 18}};

uint64_t launchesOf(const char* name) {
  const sparsecollParams_t params = preset(name, 0.01);
  Group host(1, kLength, sparsecollFloat32, params);
  Group device(1, kLength, sparsecollFloat32, params, nullptr, nullptr, kDevice);
  uint64_t before = 0;
  for (uint64_t step = 0; step < 3; ++step) {
    before = simt::work().kernels;
    for (Group* const group : {&host, &device}) {
      group->fillRandom(step);
      REQUIRE(group->step() == all(1, sparsecollSuccess));
    }
    CHECK(device.outs[0] == host.outs[0]);
    CHECK(device.residual(0) == host.residual(0));
  }
  checkEmulation();
  return simt::work().kernels - before;
}

}  // namespace

TEST_CASE("a step takes no more kernels than it did") {
  for (const std::string& name : sparsePresets()) {
    CAPTURE(name);
    REQUIRE(kMost.contains(name));
    CHECK(launchesOf(name.c_str()) <= kMost.at(name));
  }
}
