// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Load and unload, and the kernel's own news: suspends, and devices that are bound to drivers. */
#include "stock.h"

#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/suspend.h>

/* Controls end with EAGAIN from before programs are frozen until they go on. */
static int stock_pm(struct notifier_block *notifier, unsigned long event, void *data)
{
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		nv_zernel_suspended();
		nvz_rm_sleep();
		break;
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		nvz_rm_wake();
		nv_zernel_resumed();
		break;
	}
	return NOTIFY_DONE;
}

static int stock_bus(struct notifier_block *notifier, unsigned long event, void *data)
{
	if (event == BUS_NOTIFY_BOUND_DRIVER || event == BUS_NOTIFY_UNBOUND_DRIVER)
		stock_queue_tell(STOCK_GPUS, 0, NULL);
	return NOTIFY_DONE;
}

static struct notifier_block stock_pm_notifier = { .notifier_call = stock_pm };
static struct notifier_block stock_bus_notifier = { .notifier_call = stock_bus };

static void stock_forget_all(void)
{
	nv_file_private_t *owner;

	while ((owner = nvz_file_any()))
		nv_zernel_file_close(owner);
	stock_gpu_exit();
}

static int __init stock_init(void)
{
	int ret;

	ret = stock_rm_init();
	if (ret)
		return ret;
	ret = stock_queue_init();
	if (ret)
		return ret;
	ret = bus_register_notifier(&pci_bus_type, &stock_bus_notifier);
	if (ret)
		goto queue;
	ret = register_pm_notifier(&stock_pm_notifier);
	if (ret)
		goto bus;
	ret = stock_probe_init();
	if (ret)
		goto pm;
	stock_queue_tell(STOCK_GPUS, 0, NULL);
	stock_queue_flush();
	pr_info("zernel_nvidia_stock: follows nvidia.ko %s, which has no hooks\n", stock_version);
	return 0;

pm:
	unregister_pm_notifier(&stock_pm_notifier);
bus:
	bus_unregister_notifier(&pci_bus_type, &stock_bus_notifier);
queue:
	stock_queue_exit();
	stock_forget_all();
	return ret;
}

static void __exit stock_exit(void)
{
	stock_probe_exit();
	unregister_pm_notifier(&stock_pm_notifier);
	bus_unregister_notifier(&pci_bus_type, &stock_bus_notifier);
	stock_queue_exit();
	stock_forget_all();
}

module_init(stock_init);
module_exit(stock_exit);

MODULE_AUTHOR("zernel contributors");
MODULE_DESCRIPTION("TSGs of NVIDIA's open driver without hooks, for zernel_nvidia.ko");
MODULE_LICENSE("Dual MIT/GPL");
