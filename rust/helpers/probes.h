/* SPDX-License-Identifier: GPL-2.0 */
/* C side of rust/glue/core/waits.rs and rust/glue/core/probe.rs: waits for the GPU, and probes. */
#ifndef ZERNEL_PROBES_H
#define ZERNEL_PROBES_H

#include <linux/types.h>

struct file;
struct task_struct;
struct zernel_hook;
struct zernel_probe_point;

bool zernel_helper_thread_has_left(struct task_struct *task, u64 sp, u64 program);

bool zernel_helper_may_probe(void);
struct file *zernel_helper_probe_file(int fd, u64 offset);
ssize_t zernel_helper_probe_read(struct file *file, u64 offset, void *bytes, size_t length);
void zernel_helper_probe_put(struct file *file);

/* Ends a point, waits for threads in its handlers, and frees it. */
struct zernel_probe_point *zernel_helper_probe_begin(struct file *file, u64 offset, u64 id);
void zernel_helper_probe_end(struct zernel_probe_point *point);
void zernel_helper_probes_wait(void);
void zernel_helper_probe_free(struct zernel_probe_point *point);

/* Defined in rust/glue/core/waits.rs. */
void zernel_rust_wait_enters(struct zernel_hook *hook);
void zernel_rust_wait_leaves(struct zernel_hook *hook);
u64 zernel_rust_wait_calls(struct zernel_hook *hook, u64 probe, u64 sp, u64 program);
void zernel_rust_wait_returns(struct zernel_hook *hook, u64 began);

#endif /* ZERNEL_PROBES_H */
