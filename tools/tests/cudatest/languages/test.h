/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The common part of the tests in C. */
#ifndef LANGUAGES_TEST_H
#define LANGUAGES_TEST_H

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zernel/config.h>
#include <zernel/gpu.h>
#include <zernel/runtime.h>

#include "class.h"
#include "program.h"

static const struct zernel_options required = { .size = sizeof(required),
						.mode = ZERNEL_MODE_REQUIRE };
/* Triggered when the data is ready. */
static const struct zernel_spec later = { .size = sizeof(later),
					  .flags = ZERNEL_SPEC_EXACT,
					  .key = 1,
					  .expected_ns = 5000000000 };
static const struct zernel_spec now = { .size = sizeof(now),
					.flags = ZERNEL_SPEC_EXACT,
					.key = 1 };

static inline struct zernel_counters counters_of(struct zernel_runtime *runtime)
{
	struct zernel_counters counters = { .size = sizeof(counters) };

	CHECK(zernel_get_counters(runtime, &counters) == 0);
	return counters;
}

static inline struct zernel_stats stats_of(struct zernel_runtime *runtime)
{
	struct zernel_stats stats = { .size = sizeof(stats) };

	CHECK(zernel_get_stats(runtime, &stats) == 0);
	CHECK(stats.begun == stats.done + stats.cancelled + stats.expired + stats.ended +
				     stats.in_flight);
	return stats;
}

/* A call was an error of this number and name, which has a sentence. */
static inline void check_error(const char *what, int result, int error, const char *name)
{
	if (result == -error && strcmp(zernel_error_name(), name) == 0 && zernel_error()[0] != 0)
		return;
	fprintf(stderr, "%s: %d %s: %s\n", what, result, zernel_error_name(), zernel_error());
	exit(1);
}

/* The mapping of the slots of the runtime that was attached last. */
static inline void find_slots(unsigned long *from, unsigned long *to)
{
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "r");

	*from = *to = 0;
	CHECK(maps != NULL);
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (strstr(line, "/dev/zernel\n") != NULL)
			CHECK(sscanf(line, "%lx-%lx", from, to) == 2);
	}
	CHECK(fclose(maps) == 0 && *to > *from);
}

/* The cases of bad.c, class.c, graph.c and serve.c. */
void bad_input(void);
void page_unmapped(void);
void classes(void);
void wants(void);
void sizes(void);
void graphs(void);
void graph_ends(void);
void graph_bad_input(void);
void job(void);
void serve_by_class(void);
void serve_beside(void);
void serve_inline(void);

#endif /* LANGUAGES_TEST_H */
