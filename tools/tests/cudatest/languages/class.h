/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The class of a TSG, as the module tells it. */
#ifndef LANGUAGES_CLASS_H
#define LANGUAGES_CLASS_H

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/zernel.h>

#include "program.h"

/* Own level and time slice of a TSG; -1 and 0 without one. */
struct own_class {
	int level;
	unsigned int slice_us;
};

static inline int open_zernel(void)
{
	int fd = open("/dev/zernel", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

static inline struct own_class class_of(uint64_t tsg)
{
	struct zernel_class_get get;
	struct own_class own;
	int fd = open_zernel();

	memset(&get, 0, sizeof(get));
	get.target.kind = ZERNEL_TARGET_TSG;
	get.target.id = tsg;
	CHECK(ioctl(fd, ZERNEL_IOC_CLASS_GET, &get) == 0);
	CHECK(close(fd) == 0);
	own.level = get.own & ZERNEL_CLASS_LEVEL ? (int)get.own_level : -1;
	own.slice_us = get.own & ZERNEL_CLASS_TIMESLICE ? get.own_timeslice_us : 0;
	return own;
}

static inline int has_class(uint64_t tsg, int level, unsigned int slice_us)
{
	struct own_class own = class_of(tsg);

	if (own.level == level && own.slice_us == slice_us)
		return 1;
	fprintf(stderr, "TSG %llu: level %d, slice %u us\n", (unsigned long long)tsg, own.level,
		own.slice_us);
	return 0;
}

/* Gives it a class in a file of its own, as another program does. */
static inline void give_class(uint64_t tsg, unsigned int level, unsigned int slice_us)
{
	struct zernel_class_set set;
	int fd = open_zernel();

	memset(&set, 0, sizeof(set));
	set.target.kind = ZERNEL_TARGET_TSG;
	set.target.id = tsg;
	set.set = ZERNEL_CLASS_LEVEL | ZERNEL_CLASS_TIMESLICE;
	set.level = level;
	set.timeslice_us = slice_us;
	CHECK(ioctl(fd, ZERNEL_IOC_CLASS_SET, &set) == 0);
	CHECK(close(fd) == 0);
}

/* Mappings of slots: one for each runtime that is there. */
static inline unsigned int count_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int count = 0;
	char line[512];

	CHECK(maps != NULL);
	while (fgets(line, sizeof(line), maps) != NULL)
		count += strstr(line, "/dev/zernel\n") != NULL;
	CHECK(fclose(maps) == 0);
	return count;
}

/* Open files. */
static inline unsigned int count_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned int count = 0;

	CHECK(folder != NULL);
	while (readdir(folder) != NULL)
		count++;
	CHECK(closedir(folder) == 0);
	return count;
}

#endif /* LANGUAGES_CLASS_H */
