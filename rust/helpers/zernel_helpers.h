/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C side of rust/glue/: inline functions and macros that Rust cannot reach, and
 * the Rust functions that C calls.
 */
#ifndef ZERNEL_HELPERS_H
#define ZERNEL_HELPERS_H

#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct cgroup;
struct cred;
struct file;
struct page;
struct pid;
struct pid_namespace;

/* Identity: who a task is, and how a viewer sees it. */
void zernel_helper_get_pid(struct pid *pid);
struct pid *zernel_helper_current_pid(bool process);
struct pid *zernel_helper_process_of(struct pid *thread);
struct pid *zernel_helper_pid_from_fd(int fd, bool *thread);
int zernel_helper_pid_number(struct pid *pid, struct pid_namespace *ns);
bool zernel_helper_pid_alive(struct pid *pid, bool process);
int zernel_helper_task_of(struct pid *pid, bool process, u32 *uid, char *comm);
bool zernel_helper_same_owner(struct pid *pid, bool process);
bool zernel_helper_is_owner(struct pid *process, u32 uid);
struct pid_namespace *zernel_helper_get_pid_ns(void);
const struct cred *zernel_helper_get_cred(void);
void zernel_helper_put_cred(const struct cred *cred);
u32 zernel_helper_uid_seen(const struct cred *cred, u32 uid);
u32 zernel_helper_euid(void);
bool zernel_helper_perfmon_capable(void);
bool zernel_helper_nice_capable(void);
bool zernel_helper_resource_capable(void);
bool zernel_helper_in_group(u32 gid);
s64 zernel_helper_clock_offset(void);

/* Exit of a task. */
void zernel_helper_watch_init(struct wait_queue_entry *entry, wait_queue_func_t func);
void zernel_helper_watch_add(struct pid *pid, struct wait_queue_entry *entry);
void zernel_helper_watch_del(struct pid *pid, struct wait_queue_entry *entry);

/* Cgroups: version 2 alone. */
struct cgroup *zernel_helper_cgroup_from_fd(int fd, u32 *owner);
struct cgroup *zernel_helper_cgroup_of(struct pid *process);
struct cgroup *zernel_helper_cgroup_parent(struct cgroup *cgrp);
struct cgroup *zernel_helper_cgroup_above(struct cgroup *cgrp, int level);
u64 zernel_helper_cgroup_id(struct cgroup *cgrp);
bool zernel_helper_cgroup_dead(struct cgroup *cgrp);
void zernel_helper_cgroup_put(struct cgroup *cgrp);
int zernel_helper_cgroup_hooks_add(void *data);
void zernel_helper_cgroup_hooks_del(void);

/* Pages of slots. */
struct page *zernel_helper_slots_alloc(void);
void *zernel_helper_slots_address(struct page *page);
void zernel_helper_slots_free(struct page *page);

/* Workers. */
struct workqueue_struct *zernel_helper_wq_create(bool urgent);
void zernel_helper_work_init(struct delayed_work *work, work_func_t func);

#endif /* ZERNEL_HELPERS_H */
