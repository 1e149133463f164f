/* SPDX-License-Identifier: GPL-2.0 */
/* C side of rust/glue/core/cgroup.rs: which processes are in tracked cgroups. */
#ifndef ZERNEL_MEMBERS_H
#define ZERNEL_MEMBERS_H

#include <linux/types.h>

struct cgroup;
struct pid;
struct task_struct;

void zernel_helper_cgroup_known(struct cgroup *cgrp, bool is);
struct cgroup *zernel_helper_cgroup_next_known(struct cgroup *cgrp);
bool zernel_helper_cgroup_is_below(struct cgroup *cgrp, struct cgroup *top);
size_t zernel_helper_processes_in(struct cgroup *cgrp, int *from, struct pid **found, size_t room);

/* Defined in rust/glue/core/cgroup.rs. */
void zernel_rust_cgroup_changed(void *data);

#endif /* ZERNEL_MEMBERS_H */
