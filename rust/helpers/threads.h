/* SPDX-License-Identifier: GPL-2.0 */
/* C side of rust/glue/core/thread.rs. */
#ifndef ZERNEL_THREADS_H
#define ZERNEL_THREADS_H

#include <linux/types.h>

struct mem_cgroup;
struct pid;
struct pid_namespace;
struct task_struct;

u64 zernel_helper_run_delay(void);
struct task_struct *zernel_helper_thread_of(struct pid *pid);
struct task_struct *zernel_helper_living_thread_of(struct pid *process);
void zernel_helper_thread_get(struct task_struct *task);
void zernel_helper_thread_put(struct task_struct *task);
struct pid *zernel_helper_thread_process(struct task_struct *task);
void zernel_helper_thread_numbers(struct task_struct *task, struct pid_namespace *ns, u32 *tid,
				  u32 *pid);
u32 zernel_helper_thread_uid(struct task_struct *task);
void zernel_helper_thread_comm(struct task_struct *task, char *comm);
bool zernel_helper_thread_is_of(struct task_struct *task, u32 uid);
bool zernel_helper_thread_is_program(struct task_struct *task);
int zernel_helper_thread_maps_any(struct task_struct *task, const char *names);

/* As Charge in rust/glue/core/thread.rs. */
struct zernel_charge {
	struct mem_cgroup *memcg;
	struct mem_cgroup *before;
};

bool zernel_helper_charge_begin(struct zernel_charge *charge, struct task_struct *task);
void zernel_helper_charge_end(struct zernel_charge *charge);
size_t zernel_helper_thread_count(struct pid *process);
size_t zernel_helper_threads_of(struct pid *process, struct task_struct **tasks, size_t room);

#endif /* ZERNEL_THREADS_H */
