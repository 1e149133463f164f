// SPDX-License-Identifier: GPL-2.0
/* Helpers of rust/glue/core/load.rs. Included like irqlock.c. */

#include <linux/cpumask.h>
#include <linux/kernel_stat.h>
#include <linux/tick.h>
#include <linux/vmstat.h>

#include "load.h"

static u64 io_of(int cpu, const struct kernel_cpustat *stat)
{
	/* Told by kernels whose idle CPUs have no tick; those with one count it themselves. */
	u64 us = get_cpu_iowait_time_us(cpu, NULL);

	return us == (u64)-1 ? stat->cpustat[CPUTIME_IOWAIT] : us * NSEC_PER_USEC;
}

static u64 stalls_of(int cpu)
{
#ifdef CONFIG_VM_EVENT_COUNTERS
	const struct vm_event_state *events = &per_cpu(vm_event_states, cpu);

	return READ_ONCE(events->event[ALLOCSTALL_NORMAL]) +
	       READ_ONCE(events->event[ALLOCSTALL_MOVABLE]);
#else
	return 0;
#endif
}

/* Counters of all CPUs that are possible, so that none goes back when one is turned off. */
void zernel_helper_load(struct zernel_load *load)
{
	int cpu;

	*load = (struct zernel_load){ .cpus = num_online_cpus() };
	for_each_possible_cpu(cpu) {
		struct kernel_cpustat stat;
		const u64 *of = stat.cpustat;

		kcpustat_cpu_fetch(&stat, cpu);
		/* Guests are in the time of users. */
		load->busy_ns += of[CPUTIME_USER] + of[CPUTIME_NICE] + of[CPUTIME_SYSTEM] +
				 of[CPUTIME_IRQ] + of[CPUTIME_SOFTIRQ] + of[CPUTIME_STEAL];
		load->io_ns += io_of(cpu, &stat);
		load->stalls += stalls_of(cpu);
	}
}
