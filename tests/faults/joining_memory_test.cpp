// Memory runs out at the i-th allocation of a rank that joins over TCP (T46).
#include <iostream>

#include "tests/support/poor_meeting.h"

using namespace sparsecoll::test;

TEST_CASE("memory runs out while ranks meet over TCP: that rank is told, and no other has a communicator") {
  if (!memory::hooked()) {
    std::cout << "skipped: the sanitizer has an allocator of its own\n";
    return;
  }
  auto config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = sparsecollTransportTcp;
  checkPoorMeeting(config, SPARSECOLL_HOST, 200, 8, [] {});
}
