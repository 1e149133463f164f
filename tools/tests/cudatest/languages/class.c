// SPDX-License-Identifier: MIT OR Apache-2.0
/* Classes and counters of runtime.h in C. */
#define _GNU_SOURCE
#include "test.h"

/* A level is given, and taken away. */
void classes(void)
{
	struct program program = program_new();
	struct zernel_runtime *runtime;
	uint64_t tsg;

	CHECK(zernel_attach(&required, &runtime) == 0 && zernel_tsg(runtime, &tsg) == 0);
	CHECK(has_class(tsg, -1, 0));
	CHECK(zernel_clear_level(runtime) == 0);
	CHECK(zernel_set_level(runtime, 2) == 0 && has_class(tsg, 2, 0));
	CHECK(zernel_set_timeslice(runtime, 700) == 0 && has_class(tsg, 2, 700));
	CHECK(zernel_clear_level(runtime) == 0 && has_class(tsg, -1, 0));
	CHECK(zernel_set_timeslice(runtime, 900) == 0 && has_class(tsg, -1, 900));
	CHECK(zernel_clear_level(runtime) == 0 && has_class(tsg, -1, 0));
	/* A class that was given stays with the TSG. */
	CHECK(zernel_set_level(runtime, 5) == 0);
	zernel_detach(runtime);
	CHECK(has_class(tsg, 5, 0));
	CHECK(cuCtxDestroy(program.context) == 0);
}

/* Parts of a program want classes of one TSG. */
void wants(void)
{
	struct program program = program_new();
	struct zernel_runtime *runtime, *other;
	uint64_t tsg, one = 0, two = 0, three = 0, none = 99;
	int status;
	pid_t child;

	CHECK(zernel_attach(&required, &runtime) == 0 && zernel_attach(&required, &other) == 0);
	CHECK(zernel_tsg(runtime, &tsg) == 0);
	give_class(tsg, 5, 600);
	CHECK(zernel_want_class(runtime, 6, 0, &one) == 0 && has_class(tsg, 6, 0));
	/* Of another runtime. The most urgent holds, and of two the older. */
	CHECK(zernel_want_class(other, 2, 300, &two) == 0 && has_class(tsg, 2, 300));
	CHECK(zernel_want_class(runtime, 2, 800, &three) == 0 && has_class(tsg, 2, 300));
	CHECK(zernel_want_class(other, 3, 0, &two) == 0 && has_class(tsg, 2, 800));
	CHECK(zernel_drop_class(runtime, three) == 0 && has_class(tsg, 3, 0));
	/* A child of fork() changes nothing. */
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(zernel_drop_class(runtime, one) == -ECHILD);
		CHECK(zernel_want_class(runtime, 0, 0, &one) == -ECHILD);
		CHECK(zernel_clear_level(runtime) == -ECHILD);
		zernel_detach(runtime);
		zernel_detach(other);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(has_class(tsg, 3, 0));
	/* The end of a runtime ends its wants. */
	zernel_detach(other);
	CHECK(has_class(tsg, 6, 0));
	for (int bad = 0; bad < 5; bad++) {
		int results[] = { zernel_drop_class(runtime, two),
				  zernel_drop_class(runtime, 0),
				  zernel_drop_class(runtime, three),
				  zernel_want_class(runtime, 0, 0, &none),
				  zernel_want_class(runtime, 0, 0, &three) };

		CHECK(results[bad] == -EIDRM);
		CHECK(strcmp(zernel_error_name(), "ZERNEL_UNKNOWN_WANT") == 0);
	}
	CHECK(none == 99 && has_class(tsg, 6, 0));
	/* The last one gives back what was there before the first. */
	CHECK(zernel_drop_class(runtime, one) == 0 && has_class(tsg, 5, 600));
	/* A class that somebody else gives meanwhile stays. */
	one = 0;
	CHECK(zernel_want_class(runtime, 1, 0, &one) == 0 && has_class(tsg, 1, 0));
	give_class(tsg, 4, 400);
	CHECK(zernel_drop_class(runtime, one) == 0 && has_class(tsg, 4, 400));
	/* And so for a TSG that had none. */
	CHECK(zernel_clear_level(runtime) == 0);
	one = 0;
	CHECK(zernel_want_class(runtime, 0, 200, &one) == 0 && has_class(tsg, 0, 200));
	zernel_detach(runtime);
	CHECK(has_class(tsg, -1, 0));
	CHECK(cuCtxDestroy(program.context) == 0);
}

enum { ROOM = 40 };

/* The error of a call for a structure at the begin of so many words. */
typedef int get(struct zernel_runtime *runtime, void *words);

static int get_counters(struct zernel_runtime *runtime, void *words)
{
	return zernel_get_counters(runtime, words);
}

static int get_stats(struct zernel_runtime *runtime, void *words)
{
	return zernel_get_stats(runtime, words);
}

static int get_usage(struct zernel_runtime *runtime, void *words)
{
	return zernel_get_usage(runtime, words);
}

static int get_config(struct zernel_runtime *runtime, void *words)
{
	(void)runtime;
	return zernel_config_read(NULL, words);
}

/* Words behind a structure are not its own, also where it is longer than the library knows. */
void sizes(void)
{
	static const struct {
		get *get;
		uint32_t size;
		uint32_t first; /* the size of the first version */
	} all[] = {
		{ get_counters, sizeof(struct zernel_counters), sizeof(struct zernel_counters) },
		{ get_stats, sizeof(struct zernel_stats), sizeof(struct zernel_stats) },
		{ get_usage, sizeof(struct zernel_usage), sizeof(struct zernel_usage) },
		{ get_config, sizeof(struct zernel_config), 80 },
	};
	struct zernel_options off = { .size = sizeof(off), .mode = ZERNEL_MODE_OFF };
	struct zernel_runtime *runtime;

	CHECK(zernel_attach(&off, &runtime) == 0);
	for (size_t at = 0; at < sizeof(all) / sizeof(all[0]); at++) {
		const uint32_t more[] = { 0, 8, 64 };
		uint32_t words[ROOM * 2];

		for (size_t longer = 0; longer < 3; longer++) {
			size_t own = (all[at].size + more[longer]) / sizeof(words[0]);

			memset(words, 0x5a, sizeof(words));
			memset(words, 0, own * sizeof(words[0]));
			words[0] = all[at].size + more[longer];
			CHECK(all[at].get(runtime, words) == 0);
			CHECK(words[0] == all[at].size + more[longer]);
			for (size_t word = all[at].size / sizeof(words[0]); word < own; word++)
				CHECK(words[word] == 0);
			for (size_t word = own; word < ROOM * 2; word++)
				CHECK(words[word] == 0x5a5a5a5a);
		}
		memset(words, 0, sizeof(words));
		words[0] = all[at].size + 64;
		words[all[at].size / sizeof(words[0]) + 3] = 1;
		CHECK(all[at].get(runtime, words) == -E2BIG);
		CHECK(strcmp(zernel_error_name(), "ZERNEL_BAD_SIZE") == 0);
		words[0] = all[at].first - 1;
		CHECK(all[at].get(runtime, words) == -EINVAL);
		CHECK(words[0] == all[at].first - 1);
		/* Nor is more of it written than a program of the first version has. */
		memset(words, 0x5a, sizeof(words));
		memset(words, 0, all[at].first);
		words[0] = all[at].first;
		CHECK(all[at].get(runtime, words) == 0 && words[0] == all[at].first);
		for (size_t word = all[at].first / sizeof(words[0]); word < ROOM * 2; word++)
			CHECK(words[word] == 0x5a5a5a5a);
	}
	zernel_detach(runtime);
}
