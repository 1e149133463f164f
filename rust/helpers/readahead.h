/* SPDX-License-Identifier: GPL-2.0 */
/* Files that are read ahead: helpers of readahead.rs and detached.rs in rust/glue/core. */
#ifndef ZERNEL_READAHEAD_H
#define ZERNEL_READAHEAD_H

#include <linux/types.h>
#include <linux/workqueue.h>

struct cgroup_subsys_state;
struct file;
struct mem_cgroup;

/* A file, and the cgroups that its reads are charged to. */
struct zernel_source {
	struct file *file;
	struct mem_cgroup *memcg;
	struct cgroup_subsys_state *blkcg;
};

int zernel_helper_source_open(int fd, struct zernel_source *source);
void zernel_helper_source_close(struct zernel_source *source);
u64 zernel_helper_source_size(const struct zernel_source *source);
u64 zernel_helper_source_most(const struct zernel_source *source, u64 offset);
int zernel_helper_source_read(const struct zernel_source *source, u64 offset, u64 length);

struct workqueue_struct *zernel_helper_detached_wq_create(void);

#endif /* ZERNEL_READAHEAD_H */
