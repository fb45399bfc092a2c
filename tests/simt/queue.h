// A hardware queue of a device: what streams put there runs in order, whichever stream it is of. A device has a few,
// and streams share them: one that waits holds up whoever came behind it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace simt {

class Queue {
 public:
  Queue() = default;
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // For a new stream of the device: one of those with the fewest streams.
  static Queue& take(int device);
  void give();  // the stream is gone; what it put here is not

  // ready: asked until it holds, then the work is done; empty: at once. Returns the work's ticket.
  uint64_t add(std::function<void()> run, std::function<bool()> ready = {});
  bool idle();
  bool done(uint64_t ticket);
  uint64_t lastTicket();
  // Until the work is done; false if patience ended while nothing moved.
  bool await(uint64_t ticket);

  // Until all queues of the device are idle, as calls wait that free memory or load a kernel. False: patience ended.
  static bool awaitDevice(int device, const char* why);
  // Forgets what has not been done, on all devices.
  static void dropAll();

 private:
  struct Work {
    std::function<void()> run;
    std::function<bool()> ready;
  };
  template <class Done>
  bool awaitThat(Done done, const char* why);
  void run();
  void drop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;  // the first one is under way, unless
  bool stands_ = false;    // it is not ready
  uint64_t added_ = 0, done_ = 0;
  bool ends_ = false;
  int streams_ = 0;     // guarded by the queues' common mutex
  std::thread thread_;  // made for the first thing that has to wait
};

}  // namespace simt
