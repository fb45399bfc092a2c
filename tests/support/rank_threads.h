// Threads for ranks, kept from one call to the next: tests make many thousands of short steps, and on a busy machine to
// start and join a thread takes longer than most of them.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sparsecoll::test {

class RankThreads {
 public:
  static RankThreads& ofProcess() {
    static RankThreads instance;
    return instance;
  }
  ~RankThreads() { dismiss(); }
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  // Calls body(0) to body(count - 1), each on a thread of its own, and waits for all of them. Any thread may call.
  void run(int count, const std::function<void(int)>& body) {
    int under = count;
    std::unique_lock lock(mutex_);
    if (process_ != getpid()) forget();
    for (int rank = 0; rank < count; ++rank) {
      Member& member = idle();
      member.job = [this, &under, &body, rank] {
        body(rank);
        const std::lock_guard ended(mutex_);
        if (--under == 0) changed_.notify_all();
      };
      member.begins.notify_one();
    }
    changed_.wait(lock, [&] { return under == 0; });
  }

  // Ends those that are idle, as a process should that forks.
  void dismiss() {
    {
      const std::lock_guard lock(mutex_);
      if (process_ != getpid()) forget();
      dismissed_ = true;
      for (const auto& member : members_) member->begins.notify_one();
    }
    for (const auto& member : members_) member->thread.join();
    members_.clear();
    dismissed_ = false;
  }

 private:
  struct Member {
    std::condition_variable begins;
    std::function<void()> job;  // until it is done
    bool busy = false;
    std::thread thread;
  };

  RankThreads() = default;

  Member& idle() {
    for (const auto& member : members_)
      if (!member->busy) {
        member->busy = true;
        return *member;
      }
    members_.push_back(std::make_unique<Member>());
    Member& made = *members_.back();
    made.busy = true;
    made.thread = std::thread([this, &made] { serve(made); });
    return made;
  }

  void serve(Member& self) {
    std::unique_lock lock(mutex_);
    for (;;) {
      self.begins.wait(lock, [&] { return self.job != nullptr || dismissed_; });
      if (self.job == nullptr) return;
      lock.unlock();
      self.job();
      lock.lock();
      self.job = nullptr;
      self.busy = false;
    }
  }

  // The threads are those of the process that this one was forked from.
  void forget() {
    process_ = getpid();
    for (auto& member : members_) {
      member->thread.detach();
      (void)member.release();
    }
    members_.clear();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Member>> members_;
  bool dismissed_ = false;
  pid_t process_ = getpid();
};

}  // namespace sparsecoll::test
