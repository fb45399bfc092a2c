// What becomes of acc and of the counts once the sum is known, and lists taken apart and put together.
#pragma once

#include <span>

#include "core/kernels.h"

namespace sparsecoll::host {

Status concatenate(std::span<const ListPart> parts, sparsecollDataType_t type, const List& to);
void settle(const SettleArgs& args);
Status checkOrder(const ListView& list, uint64_t n);
Status countBlocks(const BlockCountArgs& args);
void tally(const ListView& sum, const uint64_t* bounds, uint32_t owners, Control& control);

}  // namespace sparsecoll::host
