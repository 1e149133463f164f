/* SPDX-License-Identifier: GPL-2.0 */
/* C side of rust/glue/sim/: the parts out of reach of Rust. */
#ifndef ZERNEL_SIM_HELPERS_H
#define ZERNEL_SIM_HELPERS_H

#include <linux/types.h>

struct mm_struct;
struct page;
struct pid;

/* As given; not checked. */
struct zernel_sim_params {
	const char *preset;
	unsigned int gpus;
	int copy_engines;
	unsigned int max_tsgs;
	unsigned int word_poll_us;
	unsigned int user_contexts;
	unsigned int user_items;
	unsigned int operation_percent;
	const char *lacks;
};

void zernel_sim_helper_params(struct zernel_sim_params *params);

/* The caller. */
struct pid *zernel_sim_helper_current_pid(bool process);
pid_t zernel_sim_helper_pid_global(struct pid *pid);
bool zernel_sim_helper_pid_alive(struct pid *pid, bool process);
bool zernel_sim_helper_perfmon_capable(void);

/* Memory of the caller, pinned, and the memory map that it is accounted to. */
int zernel_sim_helper_pin(unsigned long address, struct page **pages, size_t count,
			  struct mm_struct **mm);
void zernel_sim_helper_unpin(struct page **pages, size_t count, struct mm_struct *mm);
void *zernel_sim_helper_page_address(struct page *page);

#endif /* ZERNEL_SIM_HELPERS_H */
