// SPDX-License-Identifier: MIT OR Apache-2.0
// A scheduler for C++17: functions that launch work on a GPU run in threads of its own, and
// requests are made for those that are latency-critical.
#ifndef ZERNEL_SCHEDULER_HPP
#define ZERNEL_SCHEDULER_HPP

#include <zernel/pool.hpp>

namespace zernel {

// A kind of work: a function, with its type, level and longest latency. A copy is the same task. It
// can outlive its scheduler; then it refuses calls.
template <typename Function>
class Task {
public:
	// Latencies above this are violations, and zernel predicts for it; 0: none is.
	Task &set_slo(std::chrono::nanoseconds slo)
	{
		kind_->slo_ns = detail::count_ns(slo);
		return *this;
	}

	// Its level, 0 (most urgent) to 7. Calls of more urgent tasks of a type go first. The TSG
	// of the context has the level of the most urgent task that is there: one whose last copy
	// and last call are gone is not.
	Task &set_priority(std::uint32_t level)
	{
		pool_->set_level(*kind_, level);
		return *this;
	}

	// The key of its requests; usually one of the program's name and the task's number.
	Task &set_key(std::uint64_t key)
	{
		kind_->key = key;
		return *this;
	}

	// Calls the function in a thread of the scheduler: function(stream, arguments...) or
	// function(stream, request, arguments...). Arguments are copied or moved. When it returns,
	// the request is ready unless it was before, best right behind the first launch; the result
	// is there when the stream has come to its end. An exception of the function, or an error of
	// the stream, arrives in the future.
	//
	// Errors: EAGAIN ZERNEL_QUEUE_FULL, ESHUTDOWN ZERNEL_SHUT_DOWN, ECHILD ZERNEL_FORKED.
	template <typename... Arguments>
	auto submit(Arguments &&...arguments)
	{
		using Call = detail::CallOf<Function, std::decay_t<Arguments>...>;
		auto call = std::make_unique<Call>(function_,
						   std::forward<Arguments>(arguments)...);
		auto future = call->future();
		pool_->submit(kind_, std::move(call));
		return future;
	}

private:
	friend class Scheduler;

	Task(std::shared_ptr<detail::Pool> pool, std::shared_ptr<detail::Kind> kind,
	     Function function)
		: pool_(std::move(pool)), kind_(std::move(kind)),
		  function_(std::make_shared<Function>(std::move(function)))
	{
	}

	std::shared_ptr<detail::Pool> pool_;
	std::shared_ptr<detail::Kind> kind_;
	std::shared_ptr<Function> function_;
};

// Threads with streams of one context, and tasks for them. The context is the one that is current
// in the thread that makes the scheduler, if it is on the GPU of the configuration, else the GPU's
// primary one. It has one TSG, and so one level for all tasks: use a scheduler and a context for
// each level that must be told apart.
//
// Without CUDA, and unless the mode is Require, functions get a null stream. Of the options, mode
// and tsg count; the others are those of the configuration. One that was moved from can be assigned
// to or destroyed, and nothing else.
class Scheduler {
public:
	explicit Scheduler(const Config &config = {}, const Options &options = {})
		: pool_(detail::Pool::make(config, options))
	{
	}
	Scheduler(Scheduler &&) noexcept = default;
	Scheduler &operator=(Scheduler &&other) noexcept
	{
		if (this != &other) {
			end();
			pool_ = std::move(other.pool_);
		}
		return *this;
	}
	Scheduler(const Scheduler &) = delete;
	Scheduler &operator=(const Scheduler &) = delete;

	// Waits until all calls have run, and takes the class of the context back. In a child of
	// fork() it leaves everything to the parent. In a thread of its own, as the end of a function
	// or of its captures, it does not wait: calls that were made still run, and then the last
	// thread ends what is left. The context must live until then.
	~Scheduler() { end(); }

	// A task for a function, which several threads may call at the same time.
	//
	// Where the level takes a privilege that the program lacks, the task goes on without it: a
	// line on the standard error and get_metrics().class_refused tell; with Mode::Require it is
	// an error.
	template <typename Function>
	auto create_task(TaskType type, Function &&function)
	{
		using Own = std::decay_t<Function>;
		return Task<Own>(pool_, detail::Pool::create(pool_, type), Own(std::forward<Function>(function)));
	}

	// task.submit(arguments...).
	template <typename Function, typename... Arguments>
	auto submit(Task<Function> &task, Arguments &&...arguments)
	{
		return task.submit(std::forward<Arguments>(arguments)...);
	}

	// What has happened so far. A call is counted before its future is ready.
	Metrics get_metrics() const
	{
		pool_->check_process();
		return pool_->metrics();
	}

	// The runtime, for requests beside tasks.
	const Runtime &runtime() const { return pool_->runtime(); }

	// Refuses calls from now on, and ends when those that were made are over: run, or, with
	// Pending::Drop, those that wait fail with ECANCELED, ZERNEL_DROPPED. The class of the
	// context is taken back. Several threads may call it, and each waits.
	//
	// Errors: EDEADLK ZERNEL_WOULD_DEADLOCK in a function of a task, ECHILD ZERNEL_FORKED;
	// nothing has changed then.
	void shutdown(Pending pending = Pending::Run)
	{
		// It may be moved meanwhile.
		auto pool = pool_;
		pool->check_process();
		pool->check_thread();
		pool->close(pending);
	}

private:
	void end() noexcept
	{
		if (pool_ && pool_->is_child()) {
			// What waits in it, and who has its lock, stayed with the parent: it is
			// never ended.
			static auto *const kept = new std::vector<std::shared_ptr<detail::Pool>>;
			kept->push_back(std::move(pool_));
		} else if (pool_ && pool_->is_worker()) {
			pool_->leave();
		} else if (pool_) {
			pool_->close(Pending::Run);
			pool_->end();
		}
	}

	std::shared_ptr<detail::Pool> pool_;
};

} // namespace zernel

#endif // ZERNEL_SCHEDULER_HPP
