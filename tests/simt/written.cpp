// A word that changes while threads of a kernel look at it.
#include "tests/simt/simt.h"

namespace simt {
namespace {

std::atomic<uint64_t> looksLeft{0};
uint32_t* written = nullptr;
uint32_t coming = 0;

}  // namespace

void writeMeanwhile(uint32_t* word, uint64_t looks, uint32_t value) {
  written = word;
  coming = value;
  looksLeft = looks;
  writtenMeanwhile = word;
}

void lookAtWritten() {
  if (looksLeft.fetch_sub(1) != 0) return;
  writtenMeanwhile = nullptr;
  std::atomic_ref<uint32_t>(*written).store(coming);
}

}  // namespace simt
