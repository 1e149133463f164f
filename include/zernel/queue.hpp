// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of a scheduler's pool: its context, and the calls that wait. Nothing here is for programs:
// see scheduler.hpp.
#ifndef ZERNEL_QUEUE_HPP
#define ZERNEL_QUEUE_HPP

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <vector>

#include <zernel/call.hpp>
#include <zernel/gpu.h>
#include <zernel/metrics.hpp>

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

	void add(std::unique_ptr<Call> call, std::uint32_t level)
	{
		calls[level].push_back(std::move(call));
		metrics.submitted++;
		metrics.waiting++;
		filled.notify_one();
	}

	// The next one, if any waits. It runs from now on.
	std::unique_ptr<Call> take()
	{
		for (auto &level : calls) {
			if (level.empty())
				continue;
			auto call = std::move(level.front());
			level.pop_front();
			taken--;
			metrics.waiting--;
			metrics.running++;
			return call;
		}
		return nullptr;
	}

	// One that ran is over.
	void finish(const Call &call, bool has_failed) noexcept
	{
		auto latency = std::chrono::steady_clock::now() - call.submitted;
		auto slo = call.kind->slo_ns.load();
		metrics.running--;
		if (has_failed) {
			metrics.failed++;
			return;
		}
		metrics.completed++;
		if (slo != 0 && latency > std::chrono::nanoseconds(slo))
			metrics.slo_violations++;
		window.add(latency);
	}

	// Moves all that wait away.
	void drop(std::vector<std::unique_ptr<Call>> &dropped)
	{
		for (auto &level : calls) {
			for (auto &call : level) {
				dropped.push_back(std::move(call));
				taken--;
				metrics.waiting--;
				metrics.cancelled++;
			}
			level.clear();
		}
	}

	std::array<std::deque<std::unique_ptr<Call>>, 8> calls;
	// Calls that are in it, or about to be.
	std::size_t taken = 0;
	TaskMetrics metrics;
	Window window;
	std::condition_variable filled;
};

} // namespace detail
} // namespace zernel

#endif // ZERNEL_QUEUE_HPP
