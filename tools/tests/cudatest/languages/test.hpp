// SPDX-License-Identifier: MIT OR Apache-2.0
// The common part of the tests in C++.
#ifndef LANGUAGES_TEST_HPP
#define LANGUAGES_TEST_HPP

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include <zernel/runtime.hpp>

#include "class.h"
#include "program.h"

using namespace std::chrono_literals;
using zernel::Config;
using zernel::Error;
using zernel::GraphRequests;
using zernel::Metrics;
using zernel::Mode;
using zernel::Options;
using zernel::Pending;
using zernel::ReleaseWord;
using zernel::Request;
using zernel::Runtime;
using zernel::Scheduler;
using zernel::Spec;
using zernel::Stream;
using zernel::TaskType;

inline Options required()
{
	Options options;
	options.mode = Mode::Require;
	return options;
}

// Triggered when the data is ready.
inline Spec later()
{
	Spec spec;
	spec.key = 1;
	spec.expected = 5s;
	spec.is_exact = true;
	return spec;
}

// Triggered at once.
inline Spec now()
{
	Spec spec = later();
	spec.expected = 0s;
	return spec;
}

// Ends the program unless the call throws this error.
inline void expect(const char *what, int code, const std::string &name,
		   const std::function<void()> &call)
{
	try {
		call();
	} catch (const Error &error) {
		if (error.code() == code && error.name() == name && *error.what() != 0)
			return;
		std::fprintf(stderr, "%s: %d %s: %s\n", what, error.code(), error.name().c_str(),
			     error.what());
		std::exit(1);
	}
	std::fprintf(stderr, "%s: no error\n", what);
	std::exit(1);
}

// Ends a context after all that uses it.
struct Program {
	program raw = program_new();

	Program() = default;
	Program(const Program &) = delete;
	Program &operator=(const Program &) = delete;
	~Program() { CHECK(cuCtxDestroy(raw.context) == 0); }

	void work(Stream stream, std::chrono::nanoseconds time) const
	{
		auto ns = static_cast<std::uint64_t>(time.count());
		CHECK(program_work(&raw, stream, ns) == 0);
	}
};

inline Stream stream_new()
{
	Stream stream = nullptr;
	CHECK(cuStreamCreate(&stream, 1) == 0);
	return stream;
}

inline std::string file_with(const std::string &text)
{
	char name[] = "/tmp/zernel-XXXXXX";
	int fd = mkstemp(name);
	CHECK(fd >= 0 && close(fd) == 0);
	std::ofstream(name) << text;
	return name;
}

inline Config config_of(const std::string &text)
{
	std::string name = file_with(text);
	try {
		Config config = Config::from_file(name);
		unlink(name.c_str());
		return config;
	} catch (...) {
		unlink(name.c_str());
		throw;
	}
}

// A gate that functions of tasks wait at.
class Gate {
public:
	void open() { promise_.set_value(); }
	void pass() const { future_.wait(); }

private:
	std::promise<void> promise_;
	std::shared_future<void> future_ = promise_.get_future().share();
};

// Cases of bad.cc, ends.cc, class.cc, graph.cc and serve.cc.
void bad_input();
void page_unmapped();
void hostile_words();
void two_runtimes();
void shutdown_all();
void shutdown_in_a_task();
void shutdown_twice();
void end_in_a_task();
void many_tasks();
void classes();
void two_schedulers();
void metrics_of();
void graphs();
void graph_ends();
void graph_bad_input();
void job();
void serve_by_class();
void serve_beside();
void serve_inline();

#endif // LANGUAGES_TEST_HPP
