// Arguments of launches, as a test looks at them.
#include "tests/simt/state.h"

namespace simt {
namespace {

std::string (*looking)(std::span<const Argument> arguments) = nullptr;

}  // namespace

void lookAtArguments(std::string (*look)(std::span<const Argument> arguments)) { looking = look; }

bool takes(std::span<const Argument> arguments) {
  if (looking == nullptr) return true;
  const std::string wrong = looking(arguments);
  if (!wrong.empty()) report(Misuse::badCall, wrong);
  return wrong.empty();
}

}  // namespace simt
