// SPDX-License-Identifier: MIT OR Apache-2.0
// The configuration of a scheduler for C++17.
#ifndef ZERNEL_CONFIG_HPP
#define ZERNEL_CONFIG_HPP

#include <zernel/config.h>
#include <zernel/request.hpp>

namespace zernel {

// A configuration: of a file, or the defaults. The fields are those of the file (config.h).
struct Config {
	std::uint32_t gpu = 0;
	std::uint32_t latency_critical_level = 0;
	std::uint32_t best_effort_level = 7;
	std::optional<std::chrono::microseconds> latency_critical_slice = {};
	std::optional<std::chrono::microseconds> best_effort_slice = {};
	bool preemption = true;
	std::uint32_t lanes = 4;
	std::chrono::nanoseconds linger{0};
	std::chrono::nanoseconds bound{0};
	ReleaseWord release_word = ReleaseWord::Auto;
	bool is_inline = false;
	std::uint32_t workers = 2;
	std::uint32_t queue = 1024;
	std::uint32_t window = 4096;
	std::string policy = "fair";

	static Config from_file(const std::string &path)
	{
		zernel_config raw{};
		raw.size = sizeof(raw);
		detail::check(zernel_config_read(path.c_str(), &raw));
		auto slice = [](std::uint32_t us) -> std::optional<std::chrono::microseconds> {
			if (us == 0)
				return std::nullopt;
			return std::chrono::microseconds(us);
		};
		Config config;
		config.gpu = raw.gpu;
		config.latency_critical_level = raw.lc_level;
		config.best_effort_level = raw.be_level;
		config.latency_critical_slice = slice(raw.lc_slice_us);
		config.best_effort_slice = slice(raw.be_slice_us);
		config.preemption = raw.preemption != 0;
		config.lanes = raw.lanes;
		config.linger = std::chrono::nanoseconds(raw.linger_ns);
		config.bound = std::chrono::nanoseconds(raw.bound_ns);
		config.release_word = static_cast<ReleaseWord>(raw.release_word);
		config.is_inline = raw.is_inline != 0;
		config.workers = raw.workers;
		config.queue = raw.queue;
		config.window = raw.window;
		config.policy = raw.policy;
		return config;
	}

	// Fails for a field that no file could have.
	void check() const
	{
		auto within = [](std::uint32_t value, std::uint32_t most) {
			return value >= 1 && value <= most;
		};
		if (!within(workers, 256))
			detail::bad_argument("workers are 1 to 256");
		if (!within(queue, 1048576) || !within(window, 1048576))
			detail::bad_argument("queue and window are 1 to 1,048,576");
		if (!within(lanes, 64))
			detail::bad_argument("lanes are 1 to 64");
		if (best_effort_level < latency_critical_level)
			detail::bad_argument("best-effort work would be the more urgent");
		Class(latency_critical_level, latency_critical_slice);
		Class(best_effort_level, best_effort_slice);
	}
};

enum class TaskType { LatencyCritical, BestEffort };

// The calls that wait when a scheduler is shut down.
enum class Pending { Run, Drop };

} // namespace zernel

#endif // ZERNEL_CONFIG_HPP
