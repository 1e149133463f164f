// SPDX-License-Identifier: MIT OR Apache-2.0
// The tasks of a scheduler that are there, and the class that its context has for them. Nothing here
// is for programs: see scheduler.hpp.
#ifndef ZERNEL_KINDS_HPP
#define ZERNEL_KINDS_HPP

#include <array>
#include <cstdio>

#include <zernel/call.hpp>

namespace zernel {
namespace detail {

// Numbers of tasks by type and level. The class is that of the most urgent one. Calls of it hold the
// pool's lock.
class Kinds {
public:
	Kinds(const Config &config, bool is_required) : config_(config), is_required_(is_required)
	{
	}

	// A task is there. An error changes nothing, here and below.
	void add(const Runtime &runtime, Kind &kind)
	{
		count(kind)++;
		try {
			settle(runtime);
		} catch (...) {
			count(kind)--;
			throw;
		}
		kind.is_counted = true;
	}

	// A task has another level.
	void move(const Runtime &runtime, Kind &kind, std::uint32_t level)
	{
		auto change = [&](std::uint32_t to) {
			count(kind)--;
			kind.level = to;
			count(kind)++;
		};
		auto old = kind.level;
		change(level);
		try {
			settle(runtime);
		} catch (...) {
			change(old);
			throw;
		}
	}

	// The last handle of a task and its last call are gone.
	void remove(const Runtime &runtime, Kind &kind) noexcept
	{
		if (!std::exchange(kind.is_counted, false))
			return;
		count(kind)--;
		try {
			settle(runtime);
		} catch (...) {
			// A class that takes privilege has not come back.
			refused_++;
		}
	}

	// The scheduler is over: its class is taken back.
	void end() noexcept
	{
		is_over_ = true;
		want_ = Want();
	}

	std::uint64_t refused() const noexcept { return refused_; }

private:
	std::size_t &count(const Kind &kind)
	{
		return counts_[kind.type == TaskType::LatencyCritical ? 0 : 1][kind.level];
	}

	std::optional<Class> wanted() const
	{
		for (std::uint32_t level = 0; level < 8; level++) {
			if (counts_[0][level] != 0)
				return Class(level, config_.latency_critical_slice);
			if (counts_[1][level] != 0)
				return Class(level, config_.best_effort_slice);
		}
		return std::nullopt;
	}

	void settle(const Runtime &runtime)
	{
		if (is_over_)
			return;
		auto now = wanted();
		if (!now) {
			want_ = Want();
			return;
		}
		try {
			want_.change(runtime, *now);
		} catch (const Error &error) {
			if (is_required_)
				throw;
			if (refused_++ == 0)
				std::fprintf(stderr, "zernel: %s; tasks run without their class\n",
					     error.what());
		}
	}

	const Config &config_;
	const bool is_required_;
	bool is_over_ = false;
	std::array<std::array<std::size_t, 8>, 2> counts_{};
	Want want_;
	std::uint64_t refused_ = 0;
};

} // namespace detail
} // namespace zernel

#endif // ZERNEL_KINDS_HPP
