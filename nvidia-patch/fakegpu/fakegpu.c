// SPDX-License-Identifier: GPL-2.0
/*
 * Test only: a PCI domain with up to four fake NVIDIA GPUs, for a machine without
 * one. Their BARs are RAM that the kernel was told to leave alone, for example with
 * memmap=256M$0x20000000 on its command line.
 *
 * NVIDIA's resource manager recognises them by two registers (a GA100), loads,
 * makes device nodes and clients; it does not get as far as devices, which need
 * firmware that runs on the GPU.
 *
 * Unloading takes the GPUs off the bus, and the driver with them; while somebody
 * has one open, that waits until it is closed, as the driver does.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/pci_regs.h>
#include <linux/unaligned.h>
#include <asm/pci.h>

#define MAX_GPUS	4U
#define DOMAIN		0x10
#define VENDOR		0x10de

/* A GPU's part of the memory, each BAR at a multiple of its size. */
#define FB_SIZE		SZ_32M		/* BAR 1 and 2 */
#define REGS_SIZE	SZ_16M		/* BAR 0 */
#define INST_SIZE	SZ_16M		/* BAR 3 and 4 */
#define FB_OFFSET	0UL
#define REGS_OFFSET	(FB_OFFSET + FB_SIZE)
#define INST_OFFSET	(REGS_OFFSET + REGS_SIZE)
#define GPU_SIZE	(INST_OFFSET + INST_SIZE)

/* Registers that say which GPU it is. */
#define PMC_BOOT_0	0x000
#define PMC_BOOT_42	0xa00

/* Capabilities, in the order of their list. */
#define CAP_PM		0x60
#define CAP_MSI		0x68
#define CAP_EXP		0x78
#define CAP_MSIX	0xc8
#define MSIX_TABLE	0xb90000	/* in BAR 0 */
#define MSIX_PENDING	0xba0000

#define BAR_64		(PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH)

static unsigned int gpus = 1;
module_param(gpus, uint, 0444);
MODULE_PARM_DESC(gpus, "number of GPUs, 1 to 4 (default 1)");
static ulong base = 0x20000000;
module_param(base, ulong, 0444);
MODULE_PARM_DESC(base, "physical address of the memory, 64 MiB for each GPU");
static ushort device = 0x20b0;
module_param(device, ushort, 0444);
MODULE_PARM_DESC(device, "PCI device number");
static uint boot0 = 0x170000a1;
module_param(boot0, uint, 0444);
MODULE_PARM_DESC(boot0, "register PMC_BOOT_0");
static uint boot42 = 0x170a1000;
module_param(boot42, uint, 0444);
MODULE_PARM_DESC(boot42, "register PMC_BOOT_42");

/* The part of the configuration space of a GPU in which something is. */
struct config {
	u8 bytes[PCI_CFG_SPACE_SIZE];
};

struct bar {
	u32 size;	/* 0: the upper half of the one before, or none */
	u32 flags;
};

static const struct bar bars[PCI_STD_NUM_BARS] = {
	{ REGS_SIZE, 0 }, { FB_SIZE, BAR_64 }, { }, { INST_SIZE, BAR_64 },
};

static struct config configs[MAX_GPUS];
static struct pci_sysdata sysdata = { .domain = DOMAIN, .node = NUMA_NO_NODE };
static struct resource window;
static struct resource numbers;
static struct pci_bus *bus;

static struct config *config_of(unsigned int devfn, int where, int size)
{
	if (PCI_FUNC(devfn) || PCI_SLOT(devfn) >= gpus)
		return NULL;
	if (where < 0 || where + size > PCI_CFG_SPACE_SIZE)
		return NULL;
	return &configs[PCI_SLOT(devfn)];
}

static u32 load(const u8 *from, int size)
{
	switch (size) {
	case 1:
		return *from;
	case 2:
		return get_unaligned_le16(from);
	default:
		return get_unaligned_le32(from);
	}
}

static void store(u8 *to, int size, u32 value)
{
	switch (size) {
	case 1:
		*to = value;
		break;
	case 2:
		put_unaligned_le16(value, to);
		break;
	default:
		put_unaligned_le32(value, to);
	}
}

static int config_read(struct pci_bus *on, unsigned int devfn, int where, int size, u32 *value)
{
	struct config *config = config_of(devfn, where, size);

	if (!config) {
		*value = ~0U;
		return PCIBIOS_DEVICE_NOT_FOUND;
	}
	*value = load(config->bytes + where, size);
	return PCIBIOS_SUCCESSFUL;
}

/* Only the address bits of a BAR can be written; that is how its size is found out. */
static void write_bar(struct config *config, int where, u32 value)
{
	unsigned int i = (where - PCI_BASE_ADDRESS_0) / sizeof(u32);
	const struct bar *bar = &bars[i];

	if (bar->size)
		value = (value & ~(bar->size - 1)) | bar->flags;
	else if (!i || !(bars[i - 1].flags & PCI_BASE_ADDRESS_MEM_TYPE_64))
		value = 0;
	store(config->bytes + where, sizeof(u32), value);
}

static bool writable(int where)
{
	switch (where) {
	case PCI_COMMAND:
	case PCI_CACHE_LINE_SIZE ... PCI_LATENCY_TIMER:
	case PCI_INTERRUPT_LINE:
	case CAP_PM + PCI_PM_CTRL ... CAP_PM + PCI_PM_CTRL + 1:
	case CAP_MSI + PCI_MSI_FLAGS ... CAP_MSI + PCI_MSI_DATA_64 + 1:
	case CAP_EXP + PCI_EXP_DEVCTL ... CAP_EXP + PCI_EXP_DEVCTL + 1:
	case CAP_EXP + PCI_EXP_LNKCTL ... CAP_EXP + PCI_EXP_LNKCTL + 1:
	case CAP_EXP + PCI_EXP_DEVCTL2 ... CAP_EXP + PCI_EXP_DEVCTL2 + 1:
	case CAP_MSIX + PCI_MSIX_FLAGS ... CAP_MSIX + PCI_MSIX_FLAGS + 1:
		return true;
	default:
		return false;
	}
}

static int config_write(struct pci_bus *on, unsigned int devfn, int where, int size, u32 value)
{
	struct config *config = config_of(devfn, where, size);

	if (!config)
		return PCIBIOS_DEVICE_NOT_FOUND;
	if (where >= PCI_BASE_ADDRESS_0 && where <= PCI_BASE_ADDRESS_5) {
		if (size == sizeof(u32))
			write_bar(config, where, value);
	} else if (writable(where)) {
		store(config->bytes + where, size, value);
	}
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ops = { .read = config_read, .write = config_write };

static void put16(struct config *config, int where, u16 value)
{
	store(config->bytes + where, sizeof(value), value);
}

static void put32(struct config *config, int where, u32 value)
{
	store(config->bytes + where, sizeof(value), value);
}

static void configure(struct config *config, ulong memory)
{
	memset(config, 0, sizeof(*config));
	put16(config, PCI_VENDOR_ID, VENDOR);
	put16(config, PCI_DEVICE_ID, device);
	put16(config, PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
	put16(config, PCI_STATUS, PCI_STATUS_CAP_LIST);
	put32(config, PCI_CLASS_REVISION, PCI_CLASS_DISPLAY_3D << 16 | 0xa1);
	put32(config, PCI_BASE_ADDRESS_0, (memory + REGS_OFFSET) | bars[0].flags);
	put32(config, PCI_BASE_ADDRESS_1, (memory + FB_OFFSET) | bars[1].flags);
	put32(config, PCI_BASE_ADDRESS_3, (memory + INST_OFFSET) | bars[3].flags);
	put16(config, PCI_SUBSYSTEM_VENDOR_ID, VENDOR);
	put16(config, PCI_SUBSYSTEM_ID, 0x1450);
	config->bytes[PCI_CAPABILITY_LIST] = CAP_PM;

	put16(config, CAP_PM, PCI_CAP_ID_PM | CAP_MSI << 8);
	put16(config, CAP_PM + PCI_PM_PMC, 3);
	put16(config, CAP_MSI, PCI_CAP_ID_MSI | CAP_EXP << 8);
	put16(config, CAP_MSI + PCI_MSI_FLAGS, PCI_MSI_FLAGS_64BIT);
	put16(config, CAP_EXP, PCI_CAP_ID_EXP | CAP_MSIX << 8);
	put16(config, CAP_EXP + PCI_EXP_FLAGS, 2 | PCI_EXP_TYPE_ENDPOINT << 4);
	put32(config, CAP_EXP + PCI_EXP_DEVCAP, PCI_EXP_DEVCAP_RBER | 1);
	put16(config, CAP_EXP + PCI_EXP_DEVCTL, 0x2810);
	put32(config, CAP_EXP + PCI_EXP_LNKCAP, 0x00405d04);
	put16(config, CAP_EXP + PCI_EXP_LNKSTA, 0x1104);
	put16(config, CAP_MSIX, PCI_CAP_ID_MSIX);
	put16(config, CAP_MSIX + PCI_MSIX_FLAGS, 1);	/* two vectors */
	put32(config, CAP_MSIX + PCI_MSIX_TABLE, MSIX_TABLE);
	put32(config, CAP_MSIX + PCI_MSIX_PBA, MSIX_PENDING);
}

/* RAM there is, and the kernel does not use it. */
static int check_memory(void)
{
	ulong size = gpus * GPU_SIZE;

	if (base % GPU_SIZE || base + size > SZ_4G || base + size < base)
		return -EINVAL;
	if (region_intersects(base, size, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE) !=
	    REGION_DISJOINT) {
		pr_err("the kernel uses the memory at %#lx; boot with memmap=%luM$%#lx\n", base,
		       size / SZ_1M, base);
		return -EBUSY;
	}
	return 0;
}

static int write_registers(ulong memory)
{
	void __iomem *registers = ioremap(memory + REGS_OFFSET, REGS_SIZE);
	int err = 0;

	if (!registers)
		return -ENOMEM;
	memset_io(registers, 0, REGS_SIZE);
	writel(boot0, registers + PMC_BOOT_0);
	writel(boot42, registers + PMC_BOOT_42);
	if (readl(registers + PMC_BOOT_0) != boot0) {
		pr_err("there is no memory at %#lx\n", memory + REGS_OFFSET);
		err = -ENODEV;
	}
	iounmap(registers);
	return err;
}

/* 0, or -ENODEV there is no bus: not yet, or not any more. */
static int scan(void)
{
	int err = -ENODEV;

	pci_lock_rescan_remove();
	if (bus) {
		pci_scan_child_bus(bus);
		pci_bus_claim_resources(bus);
		pci_bus_add_devices(bus);
		err = 0;
	}
	pci_unlock_rescan_remove();
	return err;
}

static int add_bus(void)
{
	LIST_HEAD(resources);

	window = (struct resource)DEFINE_RES_MEM_NAMED(base, gpus * GPU_SIZE, KBUILD_MODNAME);
	numbers = (struct resource)DEFINE_RES_NAMED(0, 1, KBUILD_MODNAME, IORESOURCE_BUS);
	if (insert_resource(&iomem_resource, &window))
		return -EBUSY;
	pci_add_resource(&resources, &window);
	pci_add_resource(&resources, &numbers);
	bus = pci_create_root_bus(NULL, 0, &ops, &sysdata, &resources);
	if (!bus) {
		pci_free_resource_list(&resources);
		release_resource(&window);
		return -ENODEV;
	}
	return scan();
}

/*
 * GPUs that were taken off the bus come back. A scan by the kernel would place their BARs anew, where
 * it does not hand out memory.
 */
static int rescan_set(const char *value, const struct kernel_param *param)
{
	return scan();
}

static const struct kernel_param_ops rescan_ops = { .set = rescan_set };
module_param_cb(rescan, &rescan_ops, NULL, 0200);
MODULE_PARM_DESC(rescan, "written, GPUs that were removed come back");

static int __init fakegpu_init(void)
{
	unsigned int i;
	int err;

	if (!gpus || gpus > MAX_GPUS)
		return -EINVAL;
	err = check_memory();
	for (i = 0; i < gpus && !err; i++) {
		configure(&configs[i], base + i * GPU_SIZE);
		err = write_registers(base + i * GPU_SIZE);
	}
	return err ?: add_bus();
}

static void __exit fakegpu_exit(void)
{
	struct pci_host_bridge *bridge = to_pci_host_bridge(bus->bridge);

	pci_lock_rescan_remove();
	pci_stop_root_bus(bus);
	pci_remove_root_bus(bus);
	bus = NULL;
	pci_unlock_rescan_remove();
	/* Its maker's reference is left. */
	pci_free_host_bridge(bridge);
	release_resource(&window);
}

module_init(fakegpu_init);
module_exit(fakegpu_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Fake NVIDIA GPUs for tests");
