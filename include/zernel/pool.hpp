// SPDX-License-Identifier: MIT OR Apache-2.0
// The threads of a scheduler. Nothing here is for programs: see scheduler.hpp.
#ifndef ZERNEL_POOL_HPP
#define ZERNEL_POOL_HPP

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include <errno.h>
#include <unistd.h>

#include <zernel/call.hpp>
#include <zernel/config.hpp>
#include <zernel/gpu.h>

namespace zernel {
namespace detail {

// A context with streams; none without CUDA.
class Gpu {
public:
	Gpu(std::uint32_t device, bool is_required)
	{
		zernel_gpu *gpu = nullptr;
		int result = zernel_gpu_open(device, &gpu);
		// No CUDA, or none that finds a GPU.
		if ((result == -ELIBACC || result == -EIO) && !is_required)
			return;
		check(result);
		gpu_.reset(gpu);
	}

	// Makes it the context of this thread's calls.
	void enter() const
	{
		if (gpu_)
			check(zernel_gpu_enter(gpu_.get()));
	}

	// It ends with the context.
	Stream create_stream(bool is_urgent) const
	{
		void *stream = nullptr;
		if (gpu_)
			check(zernel_stream_create(gpu_.get(), is_urgent, &stream));
		return static_cast<Stream>(stream);
	}

	void wait_for(Stream stream) const
	{
		if (gpu_)
			check(zernel_stream_synchronize(gpu_.get(), stream));
	}

private:
	struct Close {
		void operator()(zernel_gpu *gpu) const { zernel_gpu_close(gpu); }
	};
	std::unique_ptr<zernel_gpu, Close> gpu_;
};

// The latest latencies.
class Window {
public:
	explicit Window(std::size_t most) : most_(most) { kept_.reserve(most); }

	void add(std::chrono::nanoseconds latency) noexcept
	{
		if (kept_.size() < most_)
			kept_.push_back(latency);
		else
			kept_[next_] = latency;
		next_ = (next_ + 1) % most_;
	}

	// The percentiles 50 and 99 by the nearest rank, in microseconds.
	static std::array<double, 2> percentiles(std::vector<std::chrono::nanoseconds> sorted)
	{
		if (sorted.empty())
			return {0, 0};
		std::sort(sorted.begin(), sorted.end());
		auto at = [&](std::size_t percent) {
			std::size_t rank = (sorted.size() * percent + 99) / 100;
			return std::chrono::duration<double, std::micro>(sorted[rank - 1]).count();
		};
		return {at(50), at(99)};
	}

	const std::vector<std::chrono::nanoseconds> &kept() const { return kept_; }

private:
	std::size_t most_;
	std::size_t next_ = 0;
	std::vector<std::chrono::nanoseconds> kept_;
};

// The calls of the tasks of a type that wait, the most urgent first.
struct Queue {
	explicit Queue(const Config &config) : window(config.window) {}

	std::array<std::deque<std::unique_ptr<Call>>, 8> calls;
	// Calls that are in it, or about to be.
	std::size_t taken = 0;
	TaskMetrics metrics;
	Window window;
	std::condition_variable filled;
};

class Pool {
public:
	Pool(const Config &config, const Options &options)
		: config_(checked(config)), is_required_(requires_zernel(options)),
		  gpu_(std::in_place, config.gpu, is_required_), runtime_(attach(options)),
		  queues_{Queue(config_), Queue(config_)}
	{
		try {
			for (std::uint32_t count = 0; count < config_.workers; count++) {
				start(TaskType::LatencyCritical);
				start(TaskType::BestEffort);
			}
		} catch (...) {
			close(Pending::Drop);
			throw;
		}
	}
	Pool(const Pool &) = delete;
	Pool &operator=(const Pool &) = delete;
	// Its threads are over: the scheduler has closed it.
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

	std::shared_ptr<Kind> create(TaskType type)
	{
		check_process();
		auto kind = std::make_shared<Kind>();
		bool is_lc = type == TaskType::LatencyCritical;
		kind->type = type;
		kind->level = is_lc ? config_.latency_critical_level : config_.best_effort_level;
		std::unique_lock lock(mutex_);
		check_open();
		kind->key = key_of(++tasks_);
		kinds_.push_back(kind);
		try {
			set_class();
		} catch (...) {
			kinds_.pop_back();
			throw;
		}
		return kind;
	}

	void set_level(Kind &kind, std::uint32_t level)
	{
		check_process();
		Class wanted(level);
		std::unique_lock lock(mutex_);
		check_open();
		auto old = std::exchange(kind.level, wanted.level());
		try {
			set_class();
		} catch (...) {
			kind.level = old;
			throw;
		}
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
			queue.calls[kind->level].push_back(std::move(call));
		} catch (...) {
			if (!lock.owns_lock())
				lock.lock();
			queue.taken--;
			beginning_--;
			settled_.notify_all();
			throw;
		}
		beginning_--;
		queue.metrics.submitted++;
		queue.metrics.waiting++;
		queue.filled.notify_one();
		settled_.notify_all();
	}

	Metrics metrics() const
	{
		Metrics told;
		std::vector<std::chrono::nanoseconds> lc, be;
		{
			std::unique_lock lock(mutex_);
			told.latency_critical = queues_[0].metrics;
			told.best_effort = queues_[1].metrics;
			lc = queues_[0].window.kept();
			be = queues_[1].window.kept();
			told.class_refused = class_refused_;
		}
		auto set = [](TaskMetrics &metrics, std::array<double, 2> percentiles) {
			metrics.p50_latency_us = percentiles[0];
			metrics.p99_latency_us = percentiles[1];
		};
		set(told.latency_critical, Window::percentiles(std::move(lc)));
		set(told.best_effort, Window::percentiles(std::move(be)));
		told.submitted = told.latency_critical.submitted + told.best_effort.submitted;
		told.completed = told.latency_critical.completed + told.best_effort.completed;
		told.failures = told.latency_critical.failed + told.best_effort.failed;
		told.p50_latency_us = told.latency_critical.p50_latency_us;
		told.p99_latency_us = told.latency_critical.p99_latency_us;
		told.total_preemptions = runtime_->stats().triggers;
		auto counters = runtime_->counters();
		told.requests = counters.begun;
		told.no_lane = counters.no_lane;
		return told;
	}

	// Ends the threads. A second time does nothing.
	void close(Pending pending) noexcept
	{
		std::vector<std::unique_ptr<Call>> dropped;
		std::vector<std::thread> threads;
		{
			std::unique_lock lock(mutex_);
			is_closed_ = true;
			settled_.wait(lock, [this] { return beginning_ == 0; });
			for (auto &queue : queues_) {
				if (pending == Pending::Drop)
					drop(queue, dropped);
				queue.filled.notify_all();
			}
			threads.swap(threads_);
		}
		for (auto &call : dropped) {
			call->request = Request();
			call->fail(std::make_exception_ptr(
				Error(ECANCELED, "ZERNEL_DROPPED", "the scheduler was shut down")));
		}
		for (auto &thread : threads)
			thread.join();
	}

	// Gives all back, for tasks may outlive it. It has been closed.
	void end() noexcept
	{
		runtime_.reset();
		gpu_.reset();
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

	// Starts a worker.
	void start(TaskType type)
	{
		Stream stream = gpu_->create_stream(type == TaskType::LatencyCritical);
		threads_.emplace_back([this, type, stream] { work(type, stream); });
	}

	// In a thread, so that the context of the caller's stays what it is.
	Runtime attach(Options options) const
	{
		options.lanes = config_.lanes;
		options.bound = config_.bound;
		options.linger = config_.linger;
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

	// Gives the TSG the class of the most urgent task. The lock is held.
	void set_class()
	{
		auto less = [](const auto &one, const auto &other) {
			return one->level < other->level;
		};
		auto &first = **std::min_element(kinds_.begin(), kinds_.end(), less);
		bool is_lc = first.type == TaskType::LatencyCritical;
		auto &slice = is_lc ? config_.latency_critical_slice : config_.best_effort_slice;
		try {
			runtime_->set_class(Class(first.level, slice));
		} catch (const Error &error) {
			if (is_required_)
				throw;
			if (class_refused_++ == 0)
				std::fprintf(stderr, "zernel: %s; tasks run without their class\n",
					     error.what());
		}
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
			for (auto &calls : queue.calls) {
				if (calls.empty())
					continue;
				auto call = std::move(calls.front());
				calls.pop_front();
				queue.taken--;
				return call;
			}
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
			finish(queue, *call, error != nullptr);
			if (error)
				call->fail(error);
			else
				call->succeed();
		}
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

	void finish(Queue &queue, const Call &call, bool has_failed) noexcept
	{
		auto latency = std::chrono::steady_clock::now() - call.submitted;
		auto slo = call.kind->slo_ns.load();
		std::unique_lock lock(mutex_);
		queue.metrics.waiting--;
		if (has_failed) {
			queue.metrics.failed++;
			return;
		}
		queue.metrics.completed++;
		if (slo != 0 && latency > std::chrono::nanoseconds(slo))
			queue.metrics.slo_violations++;
		queue.window.add(latency);
	}

	static void drop(Queue &queue, std::vector<std::unique_ptr<Call>> &dropped)
	{
		for (auto &calls : queue.calls) {
			for (auto &call : calls) {
				dropped.push_back(std::move(call));
				queue.taken--;
				queue.metrics.waiting--;
				queue.metrics.dropped++;
			}
			calls.clear();
		}
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
	std::vector<std::shared_ptr<Kind>> kinds_;
	std::uint32_t tasks_ = 0;
	std::uint64_t class_refused_ = 0;
	std::size_t beginning_ = 0;
	bool is_closed_ = false;
	std::vector<std::thread> threads_;
};

} // namespace detail
} // namespace zernel

#endif // ZERNEL_POOL_HPP
