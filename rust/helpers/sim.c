// SPDX-License-Identifier: GPL-2.0
/* C side of zernel_sim.ko: module parameters and helpers of rust/glue/sim/. */

#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/stringify.h>

#include "irqlock.c"
#include "timer.c"
#include "user.c"
#include "sim_helpers.h"

/* The default; the C side of zernel_simrm.ko, which includes this one, has another. */
#ifndef ZERNEL_SIM_GPUS
#define ZERNEL_SIM_GPUS 1
#endif

static unsigned int gpus = ZERNEL_SIM_GPUS;
module_param(gpus, uint, 0444);
MODULE_PARM_DESC(gpus, "Number of GPUs, 1 to 64 (default " __stringify(ZERNEL_SIM_GPUS) ")");

static char *preset = "a100";
module_param(preset, charp, 0444);
MODULE_PARM_DESC(preset, "Model of the GPUs: a100, h100, h200, l4, rtx4090 (default a100)");

static int copy_engines = -1;
module_param(copy_engines, int, 0444);
MODULE_PARM_DESC(copy_engines, "Copy engines of each GPU, 0 to 8 (default -1: as in the preset)");

static unsigned int max_tsgs = 1024;
module_param(max_tsgs, uint, 0444);
MODULE_PARM_DESC(max_tsgs, "TSGs of each GPU at once, 1 to 4096 (default 1024)");

static unsigned int word_poll_us = 20;
module_param(word_poll_us, uint, 0444);
MODULE_PARM_DESC(word_poll_us,
		 "Interval in us of looks at semaphore words with waiters, 1 to 1000000 (default 20)");

static unsigned int user_contexts = 256;
module_param(user_contexts, uint, 0444);
MODULE_PARM_DESC(user_contexts, "Contexts of one user, 1 to 262144 (default 256)");

static unsigned int user_items = 16384;
module_param(user_items, uint, 0444);
MODULE_PARM_DESC(user_items, "Queued items of one user, 1 to 16777216 (default 16384)");

static unsigned int operation_percent = 100;
module_param(operation_percent, uint, 0444);
MODULE_PARM_DESC(operation_percent,
		 "Cost of provider operations in percent of the published cost, 0 to 10000 (default 100)");

static char *lacks = "";
module_param(lacks, charp, 0444);
MODULE_PARM_DESC(lacks,
		 "Operations that zernel is not offered, with commas: set_interleave, preempt, set_enabled, query_load, query_tsg, kick (default none)");

void zernel_sim_helper_params(struct zernel_sim_params *params)
{
	params->preset = preset;
	params->gpus = gpus;
	params->copy_engines = copy_engines;
	params->max_tsgs = max_tsgs;
	params->word_poll_us = word_poll_us;
	params->user_contexts = user_contexts;
	params->user_items = user_items;
	params->operation_percent = operation_percent;
	params->lacks = lacks;
}

struct pid *zernel_sim_helper_current_pid(bool process)
{
	return get_task_pid(current, process ? PIDTYPE_TGID : PIDTYPE_PID);
}

pid_t zernel_sim_helper_pid_global(struct pid *pid)
{
	return pid_nr(pid);
}

bool zernel_sim_helper_pid_alive(struct pid *pid, bool process)
{
	return pid_has_task(pid, process ? PIDTYPE_TGID : PIDTYPE_PID);
}

bool zernel_sim_helper_perfmon_capable(void)
{
	return perfmon_capable();
}

int zernel_sim_helper_pin(unsigned long address, struct page **pages, size_t count,
			  struct mm_struct **mm)
{
	int ret;

	if (!current->mm)
		return -EFAULT;
	ret = account_locked_vm(current->mm, count, true);
	if (ret)
		return ret;
	ret = pin_user_pages_fast(address, count, FOLL_WRITE | FOLL_LONGTERM, pages);
	if (ret != count) {
		if (ret > 0)
			unpin_user_pages(pages, ret);
		account_locked_vm(current->mm, count, false);
		return ret == -ENOMEM ? ret : -EFAULT;
	}
	mmgrab(current->mm);
	*mm = current->mm;
	return 0;
}

/* The memory map may be without users by now, as it is when a process that dies closes its files. */
void zernel_sim_helper_unpin(struct page **pages, size_t count, struct mm_struct *mm)
{
	unpin_user_pages_dirty_lock(pages, count, true);
	account_locked_vm(mm, count, false);
	mmdrop(mm);
}

void *zernel_sim_helper_page_address(struct page *page)
{
	return page_address(page);
}
