#include "runtime/callbacks.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace habana {

namespace {

std::atomic<const Callbacks*> g_callbacks{nullptr};
std::atomic<bool> g_withdrawn{false};
std::atomic<bool> g_forked{false};
std::atomic<int64_t> g_under_way{0};

}  // namespace

void SetCallbacks(const Callbacks& callbacks) {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); }); });
  g_callbacks.store(new Callbacks(callbacks));  // once per process; launches may outlive any owner
  g_withdrawn.store(false);
}

bool WithdrawCallbacks(double timeout_seconds) {
  g_withdrawn.store(true);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
  while (g_under_way.load() > 0) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool InForkedChild() { return g_forked.load(std::memory_order_relaxed); }

Status ForkedChildStatus() {
  return Status(Code::kFailedPrecondition,
                "HPU cannot be used in a process forked after load_habana_module(): TensorFlow's and the "
                "device's threads do not exist here. Start the process with the 'spawn' method instead: "
                "multiprocessing.get_context('spawn')");
}

CallbackScope::CallbackScope() {
  if (InForkedChild()) {
    status_ = ForkedChildStatus();
    return;
  }
  g_under_way.fetch_add(1);
  const Callbacks* callbacks = g_callbacks.load();
  if (callbacks == nullptr) {
    status_ = Status(Code::kFailedPrecondition,
                     "HPU has no compiler in this process: call habana_tf.load_habana_module() first");
  } else if (g_withdrawn.load()) {
    status_ =
        Status(Code::kCancelled, "HPU cannot compile any more: the Python interpreter is shutting down");
  } else {
    callbacks_ = callbacks;
  }
  if (callbacks_ == nullptr) g_under_way.fetch_sub(1);
}

CallbackScope::~CallbackScope() {
  if (callbacks_ != nullptr) g_under_way.fetch_sub(1);
}

namespace {

std::vector<Registration>& g_registrations = *new std::vector<Registration>;

Card& g_card = *new Card;

struct KnownContext {
  std::mutex mutex;  // never held while Python's lock is taken
  int64_t forgotten = 0;
};

KnownContext& g_known_context = *new KnownContext;

std::atomic<void*> g_eager_context{nullptr};

}  // namespace

void SetRegistrations(std::vector<Registration> registrations) { g_registrations = std::move(registrations); }
const std::vector<Registration>& GetRegistrations() { return g_registrations; }
void SetCard(const Card& card) { g_card = card; }
const Card& GetCard() { return g_card; }

Status EagerContextOfProcess(void** context) {
  *context = g_eager_context.load(std::memory_order_acquire);
  if (*context != nullptr && !InForkedChild() && !g_withdrawn.load()) return {};
  int64_t forgotten = 0;
  {
    std::lock_guard<std::mutex> lock(g_known_context.mutex);
    forgotten = g_known_context.forgotten;
  }
  CallbackScope python;
  HABANA_RETURN_IF_ERROR(python.status());
  const Status status = python->eager_context(context);
  std::lock_guard<std::mutex> lock(g_known_context.mutex);
  if (status.ok() && forgotten == g_known_context.forgotten)
    g_eager_context.store(*context, std::memory_order_release);
  return status;
}

void ForgetEagerContext() {
  std::lock_guard<std::mutex> lock(g_known_context.mutex);
  ++g_known_context.forgotten;
  g_eager_context.store(nullptr);
}

}  // namespace habana
