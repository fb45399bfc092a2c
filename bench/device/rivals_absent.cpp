// A program without rivals: they take long to compile.
#include "bench/device/cases.h"

namespace bench {

std::span<const CaseKind> rivalCases() { return {}; }

}  // namespace bench
