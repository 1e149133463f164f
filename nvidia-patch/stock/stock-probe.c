// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Probes of functions of nvidia.ko. They look and queue, and never change anything.
 *
 * The parameters of a call are in the kernel's memory when the core is asked, and when it answers: no
 * caller can change them meanwhile. Values behind pointers into the caller's memory are hints, read
 * without waiting for a page that is away.
 *
 * The entry of a function can be a breakpoint, where nothing may be locked, as in an NMI: only what
 * its return needs is kept there.
 */
#include "stock.h"

#include <linux/irq_work.h>
#include <linux/kprobes.h>
#include <linux/uaccess.h>

/* Calls that can be in the core at once and be seen: each thread may sleep there. */
#define STOCK_CALLS_MAX		2048

static void stock_hint_read(struct stock_hint *hint, bool answered)
{
	if (hint->at)
		hint->read[answered] = !copy_from_user_nofault(&hint->value[answered],
							       (void __user *)hint->at,
							       hint->size);
}

/* False: nothing of interest is asked for. */
static bool stock_alloc_counts(struct stock_call *call)
{
	const struct nvz_esc_alloc *plain = (void *)call->before;
	enum nvz_kind kind = nvz_kind_of(plain->class);
	u32 at = nvz_hint_at(kind);

	if (kind == NVZ_OTHER)
		return false;
	if (at != NV_ZERNEL_UNKNOWN && call->escape == NVZ_ESC_ALLOC && plain->params) {
		call->hint.at = plain->params + at;
		call->hint.size = sizeof(u32);
	}
	return true;
}

static bool stock_control_counts(struct stock_call *call)
{
	const struct nvz_esc_control *control = (void *)call->before;

	if (!nvz_user_cmd(control->cmd))
		return false;
	call->hint.size = nvz_level_size(control->cmd);
	call->hint.at = call->hint.size ? control->params : 0;
	return true;
}

static bool stock_heap_counts(const struct stock_call *call)
{
	const struct nvz_esc_heap_control *heap = (void *)call->before;

	return heap->function == NVZ_HEAP_FREE || heap->function == NVZ_HEAP_HW_FREE;
}

static bool stock_counts(struct stock_call *call)
{
	switch (call->escape) {
	case NVZ_ESC_ALLOC:
	case NVZ_ESC_ALLOC_OBJECT:
	case NVZ_ESC_ALLOC_CONTEXT_DMA:
		return stock_alloc_counts(call);
	case NVZ_ESC_CONTROL:
		return stock_control_counts(call);
	case NVZ_ESC_HEAP_CONTROL:
		return stock_heap_counts(call);
	case NVZ_ESC_FREE:
	case NVZ_ESC_DUP:
		return true;
	}
	return false;
}

/* rm_ioctl(sp, nv, nvfp, escape, data, size): not 0, if its return is of no interest. */
static int stock_call_begins(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct stock_call *call = (void *)instance->data;

	memset(call, 0, sizeof(*call));
	call->escape = regs_get_kernel_argument(regs, 3);
	call->data = (void *)regs_get_kernel_argument(regs, 4);
	call->size = regs_get_kernel_argument(regs, 5);
	if (!call->data)
		return 1;
	memcpy(call->before, call->data, min_t(u32, call->size, STOCK_DATA));
	if (!stock_counts(call))
		return 1;
	call->owner = (void *)regs_get_kernel_argument(regs, 2);
	call->begun = stock_queue_last();
	stock_hint_read(&call->hint, false);
	return 0;
}
NOKPROBE_SYMBOL(stock_call_begins);

static int stock_call_ends(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct stock_call *call = (void *)instance->data;
	nv_file_private_t *control;

	call->answer = regs_return_value(regs);
	memcpy(call->after, call->data, min_t(u32, call->size, STOCK_DATA));
	stock_hint_read(&call->hint, true);
	/* A file can be linked to another one once; its calls then count as that one's. */
	control = READ_ONCE(*(nv_file_private_t **)((void *)call->owner + STOCK_FILE_CONTROL_AT));
	if (control)
		call->owner = control;
	stock_queue_call(call);
	return 0;
}
NOKPROBE_SYMBOL(stock_call_ends);

static struct kretprobe stock_calls = {
	.kp.symbol_name = "nvidia:rm_ioctl",
	.entry_handler = stock_call_begins,
	.handler = stock_call_ends,
	.data_size = sizeof(struct stock_call),
	.maxactive = STOCK_CALLS_MAX,
};

/* rm_cleanup_file_private(sp, nv, nvfp) */
static int stock_close_begins(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	*(void **)instance->data = (void *)regs_get_kernel_argument(regs, 2);
	return 0;
}
NOKPROBE_SYMBOL(stock_close_begins);

/* The file is there for a moment yet, so that no other one has its address. */
static int stock_close_ends(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	stock_queue_tell(STOCK_CLOSE, 0, *(void **)instance->data);
	return 0;
}
NOKPROBE_SYMBOL(stock_close_ends);

static struct kretprobe stock_closes = {
	.kp.symbol_name = "nvidia:rm_cleanup_file_private",
	.entry_handler = stock_close_begins,
	.handler = stock_close_ends,
	.data_size = sizeof(void *),
	.maxactive = STOCK_CALLS_MAX,
};

/* Of rm_init_adapter(sp, nv) and rm_shutdown_adapter(sp, nv). */
static int stock_gpu_begins(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const void *nv = (void *)regs_get_kernel_argument(regs, 1);

	*(u32 *)instance->data = *(const u32 *)(nv + STOCK_GPU_ID_AT);
	return 0;
}
NOKPROBE_SYMBOL(stock_gpu_begins);

static int stock_stop_ends(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	stock_queue_tell(STOCK_STOP, *(u32 *)instance->data, NULL);
	return 0;
}
NOKPROBE_SYMBOL(stock_stop_ends);

static struct kretprobe stock_stops = {
	.kp.symbol_name = "nvidia:rm_shutdown_adapter",
	.entry_handler = stock_gpu_begins,
	.handler = stock_stop_ends,
	.data_size = sizeof(u32),
	.maxactive = STOCK_GPUS_MAX,
};

static int stock_start_ends(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	if ((NvBool)regs_return_value(regs))
		stock_queue_tell(STOCK_START, *(u32 *)instance->data, NULL);
	return 0;
}
NOKPROBE_SYMBOL(stock_start_ends);

static struct kretprobe stock_starts = {
	.kp.symbol_name = "nvidia:rm_init_adapter",
	.entry_handler = stock_gpu_begins,
	.handler = stock_start_ends,
	.data_size = sizeof(u32),
	.maxactive = STOCK_GPUS_MAX,
};

static void stock_power_interrupt(struct irq_work *work)
{
	stock_queue_tell(STOCK_SUSPEND, 0, NULL);
}

static DEFINE_IRQ_WORK(stock_power_work, stock_power_interrupt);

/* nv_set_system_power_state(state, depth), for /proc/driver/nvidia/suspend */
static int stock_power_begins(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	u32 *state = (void *)instance->data;

	*state = regs_get_kernel_argument(regs, 0);
	if (*state != STOCK_STATE_RUNNING)
		irq_work_queue(&stock_power_work);
	return 0;
}
NOKPROBE_SYMBOL(stock_power_begins);

static int stock_power_ends(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const u32 *state = (void *)instance->data;

	if (*state == STOCK_STATE_RUNNING || (NV_STATUS)regs_return_value(regs) != NV_OK)
		stock_queue_tell(STOCK_RESUME, 0, NULL);
	return 0;
}
NOKPROBE_SYMBOL(stock_power_ends);

static struct kretprobe stock_powers = {
	.kp.symbol_name = "nvidia:nv_set_system_power_state",
	.entry_handler = stock_power_begins,
	.handler = stock_power_ends,
	.data_size = sizeof(u32),
	.maxactive = STOCK_GPUS_MAX,
};

static struct kretprobe *stock_probes[] = {
	&stock_powers, &stock_starts, &stock_stops, &stock_closes, &stock_calls,
};

/* Calls and closes that no probe had room for, since load. */
u32 stock_probe_missed(void)
{
	return stock_calls.nmissed + stock_calls.kp.nmissed +
	       stock_closes.nmissed + stock_closes.kp.nmissed;
}

/* 0, or the kernel's error: it has no probes, or nvidia.ko not these functions. */
int stock_probe_init(void)
{
	int ret = register_kretprobes(stock_probes, ARRAY_SIZE(stock_probes));

	if (ret)
		pr_err("zernel_nvidia_stock: nvidia.ko cannot be probed (CONFIG_KPROBES): error %d\n",
		       ret);
	return ret;
}

/* No probe is under way when this returns; calls that are in the core stay unseen. */
void stock_probe_exit(void)
{
	unregister_kretprobes(stock_probes, ARRAY_SIZE(stock_probes));
	irq_work_sync(&stock_power_work);
}
