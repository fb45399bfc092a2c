// The 128 bytes that ranks find each other by: where rank 0 will listen, which job it is, and the secret of the job.
//
//   offset 0   magic    u32
//          4   version  u16
//          6   engine   u16    sparsecollTransport_t that the ranks are to use
//          8   address  20     of rank 0
//         28   zero     u32
//         32   host     u64    that rank 0 is on
//         40   job      16
//         56   key      32
//         88   zero     40
//
// A port is bound when the id is made, so nobody else can take it, and opened when rank 0 comes with the id: before
// that connections are refused, and an id that is never used leaves no listener.
#pragma once

#include <cstdint>
#include <span>

#include "core/wait.h"
#include "transports/bootstrap/hello.h"
#include "transports/bootstrap/socket.h"

namespace sparsecoll::bootstrap {

struct Invitation {
  Key key;
  JobId job{};
  Address address;
  uint64_t host = 0;
  sparsecollTransport_t engine = sparsecollTransportAuto;  // Auto: the ranks agree on one when they have met
};

using IdBytes = std::span<uint8_t, SPARSECOLL_UNIQUE_ID_BYTES>;
using ConstIdBytes = std::span<const uint8_t, SPARSECOLL_UNIQUE_ID_BYTES>;

// Errors: InvalidArgument.
Result<Invitation> readInvitation(ConstIdBytes id);
void writeInvitation(const Invitation& invitation, IdBytes id);

// Makes an id whose port is bound at an address of this machine, and keeps the port until rank 0 claims it in this
// process, or until the deadline. Errors: InvalidArgument (no such interface), SystemError, Unsupported.
Status invite(sparsecollTransport_t engine, const char* interfaceName, const Deadline& deadline, IdBytes id);

struct Claimed {
  Fd port;
  Deadline expires;
};
// Errors: InvalidUsage (this id was not made in this process, was claimed before, or has expired).
Result<Claimed> claim(const Invitation& invitation);
// The same for the other ranks, as far as this process can know. Errors: InvalidUsage (this rank has used the id).
Status useOnce(const Invitation& invitation, int rank);

}  // namespace sparsecoll::bootstrap
