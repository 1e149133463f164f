// SPDX-License-Identifier: MIT OR Apache-2.0
// The threads of a scheduler. Nothing here is for programs: see scheduler.hpp.
#ifndef ZERNEL_POOL_HPP
#define ZERNEL_POOL_HPP

#include <cstdlib>
#include <mutex>
#include <thread>

#include <errno.h>
#include <unistd.h>

#include <zernel/kinds.hpp>
#include <zernel/queue.hpp>

namespace zernel {
namespace detail {

class Pool {
public:
	static std::shared_ptr<Pool> make(const Config &config, const Options &options)
	{
		std::shared_ptr<Pool> pool(new Pool(config, options));
		try {
			for (std::uint32_t count = 0; count < config.workers; count++) {
				start(pool, TaskType::LatencyCritical);
				start(pool, TaskType::BestEffort);
			}
		} catch (...) {
			pool->close(Pending::Drop);
			throw;
		}
		return pool;
	}
	Pool(const Pool &) = delete;
	Pool &operator=(const Pool &) = delete;
	// Its threads are over, or have it.
	~Pool() = default;

	const Runtime &runtime() const { return *runtime_; }

	// True in a child of fork(), where the threads are not, and perhaps one that had the lock.
	bool is_child() const noexcept { return getpid() != process_; }

	void check_process() const
	{
		if (is_child())
			throw Error(ECHILD, "ZERNEL_FORKED",
				    "the scheduler stayed with the parent");
	}

	// For what waits for all threads: one of them never would come back.
	void check_thread()
	{
		if (is_worker())
			throw Error(EDEADLK, "ZERNEL_WOULD_DEADLOCK",
				    "a function of a task waits for its own scheduler");
	}

	// True in one of its threads.
	bool is_worker()
	{
		std::unique_lock lock(mutex_);
		auto own = std::this_thread::get_id();
		return std::find(workers_.begin(), workers_.end(), own) != workers_.end();
	}

	// A kind is counted as long as it is there, and no longer.
	static std::shared_ptr<Kind> create(const std::shared_ptr<Pool> &pool, TaskType type)
	{
		pool->check_process();
		std::weak_ptr<Pool> weak = pool;
		std::shared_ptr<Kind> kind(new Kind, [weak](Kind *kind) {
			if (auto pool = weak.lock())
				pool->retire(*kind);
			delete kind;
		});
		bool is_lc = type == TaskType::LatencyCritical;
		auto &config = pool->config_;
		kind->type = type;
		kind->level = is_lc ? config.latency_critical_level : config.best_effort_level;
		std::unique_lock lock(pool->mutex_);
		pool->check_open();
		kind->key = key_of(++pool->tasks_);
		pool->kinds_.add(*pool->runtime_, *kind);
		return kind;
	}

	void set_level(Kind &kind, std::uint32_t level)
	{
		check_process();
		Class wanted(level);
		std::unique_lock lock(mutex_);
		check_open();
		kinds_.move(*runtime_, kind, wanted.level());
	}

	void submit(const std::shared_ptr<Kind> &kind, std::unique_ptr<Call> call)
	{
		check_process();
		auto &queue = queue_of(kind->type);
		call->kind = kind;
		call->submitted = std::chrono::steady_clock::now();
		{
			std::unique_lock lock(mutex_);
			check_open();
			if (queue.taken >= config_.queue) {
				queue.metrics.rejected++;
				throw Error(EAGAIN, "ZERNEL_QUEUE_FULL",
					    "as many calls wait as resources.queue says");
			}
			queue.taken++;
			beginning_++;
		}
		std::unique_lock lock(mutex_, std::defer_lock);
		try {
			// Preparation begins now. A request inside a stream begins in that of the
			// worker.
			if (!config_.is_inline)
				call->request = begin(*kind, std::nullopt);
			lock.lock();
			queue.add(std::move(call), kind->level);
		} catch (...) {
			if (!lock.owns_lock())
				lock.lock();
			queue.taken--;
			beginning_--;
			settled_.notify_all();
			throw;
		}
		beginning_--;
		settled_.notify_all();
	}

	Metrics metrics()
	{
		Metrics told;
		auto &lc = told.latency_critical, &be = told.best_effort;
		std::vector<std::chrono::nanoseconds> lc_times, be_times;
		// Calls of zernel take their time: the workers do not wait for them.
		auto usage = ask([this] { return runtime_->usage(); });
		{
			std::unique_lock lock(mutex_);
			lc = queues_[0].metrics;
			be = queues_[1].metrics;
			lc_times = queues_[0].window.kept();
			be_times = queues_[1].window.kept();
			told.class_refused = kinds_.refused();
			told.gpu_utilization = utilization(usage);
			told.times_preempted = usage.times_preempted;
		}
		auto set = [](TaskMetrics &metrics, std::array<double, 2> percentiles) {
			metrics.p50_latency_us = percentiles[0];
			metrics.p99_latency_us = percentiles[1];
		};
		set(lc, Window::percentiles(std::move(lc_times)));
		set(be, Window::percentiles(std::move(be_times)));
		told.submitted = lc.submitted + be.submitted;
		told.completed = lc.completed + be.completed;
		told.failed = lc.failed + be.failed;
		told.cancelled = lc.cancelled + be.cancelled;
		told.running = lc.running + be.running;
		told.waiting = lc.waiting + be.waiting;
		told.rejected = lc.rejected + be.rejected;
		told.slo_violations = lc.slo_violations;
		told.p50_latency_us = lc.p50_latency_us;
		told.p99_latency_us = lc.p99_latency_us;
		told.best_effort_p50_us = be.p50_latency_us;
		told.best_effort_p99_us = be.p99_latency_us;
		auto stats = ask([this] { return runtime_->stats(); });
		told.request_p50_us = static_cast<double>(stats.latency_p50_ns) / 1e3;
		told.request_p99_us = static_cast<double>(stats.latency_p99_ns) / 1e3;
		told.total_preemptions = stats.triggers;
		auto counters = runtime_->counters();
		told.requests_begun = counters.begun;
		told.requests_idle =
			counters.no_lane + counters.refused + counters.lost + counters.forked;
		return told;
	}

	// Ends the threads, and takes the class back. A second time, also at once, waits for that.
	void close(Pending pending) noexcept
	{
		std::vector<std::unique_ptr<Call>> dropped;
		std::vector<std::thread> threads;
		std::unique_lock lock(mutex_);
		refuse(lock);
		if (pending == Pending::Drop) {
			for (auto &queue : queues_)
				queue.drop(dropped);
		}
		bool is_first = !std::exchange(is_ending_, true);
		threads.swap(threads_);
		lock.unlock();
		for (auto &call : dropped) {
			call->request = Request();
			call->fail(std::make_exception_ptr(
				Error(ECANCELED, "ZERNEL_DROPPED", "the scheduler was shut down")));
		}
		// Their functions and arguments may use the scheduler.
		dropped.clear();
		for (auto &thread : threads)
			thread.join();
		lock.lock();
		if (is_first) {
			kinds_.end();
			is_ended_ = true;
			settled_.notify_all();
		}
		settled_.wait(lock, [this] { return is_ended_; });
	}

	// Gives all back, for tasks may outlive it. It has been closed.
	void end() noexcept
	{
		// The runtime ends before the context, and both without the lock.
		std::optional<Gpu> gpu;
		std::optional<Runtime> runtime;
		std::unique_lock lock(mutex_);
		gpu.swap(gpu_);
		runtime.swap(runtime_);
		lock.unlock();
	}

	// Leaves all to its threads: they run what has been submitted, and the last gives all back.
	void leave() noexcept
	{
		std::unique_lock lock(mutex_);
		refuse(lock);
		is_left_ = true;
		for (auto &thread : threads_)
			thread.detach();
		threads_.clear();
	}

private:
	static const Config &checked(const Config &config)
	{
		config.check();
		return config;
	}

	static bool requires_zernel(const Options &options)
	{
		const char *mode = std::getenv("ZERNEL");
		bool by_environment = mode != nullptr && std::string(mode) == "require";
		return options.mode == Mode::Require ||
		       (options.mode == Mode::Environment && by_environment);
	}

	Pool(const Config &config, const Options &options)
		: config_(checked(config)), is_required_(requires_zernel(options)),
		  gpu_(std::in_place, config.gpu, is_required_), runtime_(attach(options)),
		  queues_{Queue(config_), Queue(config_)}, kinds_(config_, is_required_)
	{
		usage_ = ask([this] { return runtime_->usage(); });
	}

	// Starts a worker.
	static void start(const std::shared_ptr<Pool> &pool, TaskType type)
	{
		Stream stream = pool->gpu_->create_stream(type == TaskType::LatencyCritical);
		std::unique_lock lock(pool->mutex_);
		pool->workers_.reserve(pool->workers_.size() + 1);
		pool->threads_.reserve(pool->threads_.size() + 1);
		// It keeps the pool, for the scheduler may end in it.
		std::thread thread([pool, type, stream] { pool->work(type, stream); });
		pool->workers_.push_back(thread.get_id());
		pool->threads_.push_back(std::move(thread));
	}

	// The answer of the runtime; zeroes where its TSG is gone.
	template <typename Question>
	static auto ask(Question question) -> decltype(question())
	{
		try {
			return question();
		} catch (const Error &) {
			return {};
		}
	}

	// No calls come any more.
	void refuse(std::unique_lock<std::mutex> &lock)
	{
		is_closed_ = true;
		settled_.wait(lock, [this] { return beginning_ == 0; });
		for (auto &queue : queues_)
			queue.filled.notify_all();
	}

	// The last handle of a kind is gone.
	void retire(Kind &kind) noexcept
	{
		if (is_child())
			return;
		std::unique_lock lock(mutex_);
		// After the end there is no class any more.
		if (runtime_)
			kinds_.remove(*runtime_, kind);
	}

	// The share of the time since the last figure in which the GPU worked; 0 as long as zernel
	// has no later one. The lock is held.
	double utilization(const Usage &now)
	{
		if (now.at_ns <= usage_.at_ns)
			return 0;
		auto before = std::exchange(usage_, now);
		if (before.at_ns == 0)
			return 0;
		auto busy = static_cast<double>(now.busy_ns - before.busy_ns);
		return std::min(busy / static_cast<double>(now.at_ns - before.at_ns), 1.0);
	}

	// In a thread, so that the context of the caller's stays what it is.
	Runtime attach(Options options) const
	{
		options.lanes = config_.lanes;
		options.bound = config_.bound;
		options.linger = config_.linger;
		options.release_word = config_.release_word;
		std::optional<Runtime> made;
		std::exception_ptr error;
		std::thread([&] {
			try {
				gpu_->enter();
				made.emplace(options);
			} catch (...) {
				error = std::current_exception();
			}
		}).join();
		if (error)
			std::rethrow_exception(error);
		return *made;
	}

	Queue &queue_of(TaskType type)
	{
		return queues_[type == TaskType::LatencyCritical ? 0 : 1];
	}

	void check_open() const
	{
		if (is_closed_)
			throw Error(ESHUTDOWN, "ZERNEL_SHUT_DOWN", "the scheduler is shut down");
	}

	// FNV-1a of the program's name and the number of the task.
	static std::uint64_t key_of(std::uint32_t task)
	{
		std::uint64_t hash = 0xcbf29ce484222325;
		auto add = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
		for (const char *at = program_invocation_short_name; *at != 0; at++)
			add(static_cast<unsigned char>(*at));
		for (int shift = 0; shift < 32; shift += 8)
			add(static_cast<unsigned char>(task >> shift));
		return hash;
	}

	Request begin(const Kind &kind, std::optional<Stream> inline_in) const
	{
		if (!config_.preemption || kind.type != TaskType::LatencyCritical)
			return Request();
		Spec spec;
		spec.key = kind.key;
		spec.slo = std::chrono::nanoseconds(kind.slo_ns.load());
		spec.inline_in = inline_in;
		return runtime_->begin(spec);
	}

	std::unique_ptr<Call> next(Queue &queue)
	{
		std::unique_lock lock(mutex_);
		for (;;) {
			if (auto call = queue.take())
				return call;
			// One that begins comes yet.
			if (is_closed_ && beginning_ == 0)
				return nullptr;
			queue.filled.wait(lock);
		}
	}

	// The thread of a worker.
	void work(TaskType type, Stream stream) noexcept
	{
		auto &queue = queue_of(type);
		std::exception_ptr broken;
		try {
			gpu_->enter();
		} catch (...) {
			broken = std::current_exception();
		}
		while (auto call = next(queue)) {
			auto error = broken ? broken : run(*call, stream);
			{
				std::unique_lock lock(mutex_);
				queue.finish(*call, error != nullptr);
			}
			if (error)
				call->fail(error);
			else
				call->succeed();
			// What it kept may be the last that knows the scheduler.
			call.reset();
		}
		std::unique_lock lock(mutex_);
		auto own = std::this_thread::get_id();
		workers_.erase(std::find(workers_.begin(), workers_.end(), own));
		if (!is_left_ || !workers_.empty())
			return;
		kinds_.end();
		lock.unlock();
		end();
	}

	std::exception_ptr run(Call &call, Stream stream) noexcept
	{
		std::exception_ptr error;
		try {
			if (config_.is_inline)
				call.request = begin(*call.kind, stream);
			call.run(stream);
			call.request.ready();
		} catch (...) {
			error = std::current_exception();
			call.request = Request();
		}
		try {
			// After an error, too: the next call has the stream for itself.
			gpu_->wait_for(stream);
			call.request.done();
		} catch (...) {
			if (!error)
				error = std::current_exception();
		}
		call.request = Request();
		return error;
	}

	const Config config_;
	const bool is_required_;
	const pid_t process_ = getpid();
	// Threads end before the runtime, and that before the context.
	std::optional<Gpu> gpu_;
	std::optional<Runtime> runtime_;
	mutable std::mutex mutex_;
	std::condition_variable settled_;
	std::array<Queue, 2> queues_;
	Kinds kinds_;
	Usage usage_{};
	std::uint32_t tasks_ = 0;
	std::size_t beginning_ = 0;
	bool is_closed_ = false;
	// Somebody waits for the threads; they are over.
	bool is_ending_ = false, is_ended_ = false;
	// The last thread gives all back.
	bool is_left_ = false;
	// The threads that are not over.
	std::vector<std::thread::id> workers_;
	std::vector<std::thread> threads_;
};

} // namespace detail
} // namespace zernel

#endif // ZERNEL_POOL_HPP
