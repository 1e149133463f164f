// SPDX-License-Identifier: GPL-2.0
/*
 * Test only: hands the driver's core, with the kernel's privilege, the calls that zernel needs for
 * records of context switches and that nvidia-uvm.ko makes for channels, on a GPU that was never
 * started. The status of each is in the file 'coreprobe' of debugfs, a line per call. Nothing stays.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "coreprobe.h"

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

/* Operations of the core. */
#define OP_FREE		0x00
#define OP_ALLOC	0x15
#define OP_CONTROL	0x36

/* A value that no core returns: tells which of two layouts of an allocation it knows. */
#define UNTOUCHED	0x7a65726eU

#define ROOM		(8 * 1024)	/* for the parameters of any call */

struct op {
	u32 op, pad;
	union {
		struct {
			u32 client, parent, object, status;
		} free;
		struct {
			u32 client, parent, object, class;
			u64 params;
			u32 size, status;
		} alloc;
		struct {
			u32 client, parent, object, class;
			u64 params, rights;
			u32 size, flags, status, pad;
		} alloc_rights;
		struct {
			u32 client, object, cmd, flags;
			u64 params;
			u32 size, status;
		} control;
	};
};

static const char * const versions[] = { "550.163.01", "595.45.04" };

/**
 * struct call - a call and its answer
 * @name: of it
 * @alloc: an allocation of class @what, else a control
 * @what: class or control
 * @on: of the object that it is for; 0: the client
 * @size: of the parameters
 * @word: the number of a parameter, in words, that is @value, as is the next; the others are 0
 * @value: see @word
 * @status: the answer
 */
struct call {
	const char *name;
	bool alloc;
	u32 what;
	u32 on;
	u32 size;
	u32 word;
	u32 value;
	u32 status;
};

/* A handle that nobody has, and whose low bits are of no client: the core of 550 looks by these. */
#define NOBODY	0x5c0fff01U

static struct call calls[] = {
	{ "device", true, 0x0080, 0, 56 },
	{ "subdevice_of_client", true, 0x2080, 0, 4 },
	{ "memory_of_client", true, 0x003e, 0, 128 },
	{ "event_buffer", true, 0x90cd, 0, 72 },
	{ "event_buffer_on_nothing", true, 0x90cd, 0, 72, 15, NOBODY },
	{ "bind_switches_of_client", false, 0x20801238, 0, 24 },
	{ "bind_switches_of_nothing", false, 0x20801238, NOBODY, 24 },
	{ "enable_of_client", false, 0x90cd0101, 0, 8 },
	{ "get_of_client", false, 0x90cd0102, 0, 8 },
	{ "flush_of_client", false, 0x90cd0104, 0, 0 },
	{ "flush_of_nothing", false, 0x90cd0104, NOBODY, 0 },
	{ "time_of_client", false, 0x20800403, 0, 8 },
	{ "context_of_client", false, 0xa06f0113, 0, 4 },
	{ "restart_of_client", false, 0xa06f0111, 0, 2 },
	{ "disable_of_client", false, 0x2080110b, 0, 536 },
	{ "tables_of_client", false, 0x20801112, 0, 3212 },
};

static u32 session, retain_nowhere, retain_of_nobody, client_made;
static struct operations operations;
static struct dentry *file;

static u32 make_client(void *sp, u32 *client)
{
	struct op op = { .op = OP_ALLOC, .alloc_rights = { .status = UNTOUCHED } };

	operations.op(sp, &op);
	*client = op.alloc.object;
	return op.alloc_rights.status == UNTOUCHED ? op.alloc.status : op.alloc_rights.status;
}

static void free_client(void *sp, u32 client)
{
	struct op op = { .op = OP_FREE, .free = { .client = client, .object = client } };

	operations.op(sp, &op);
}

static u32 allocate(void *sp, u32 client, const struct call *call, void *params)
{
	struct op op = {
		.op = OP_ALLOC,
		.alloc_rights = {
			.client = client,
			.parent = call->on ?: client,
			.class = call->what,
			.params = (unsigned long)params,
			.status = UNTOUCHED,
		},
	};

	operations.op(sp, &op);
	return op.alloc_rights.status == UNTOUCHED ? op.alloc.status : op.alloc_rights.status;
}

static u32 control(void *sp, u32 client, const struct call *call, void *params)
{
	struct op op = {
		.op = OP_CONTROL,
		.control = {
			.client = client,
			.object = call->on ?: client,
			.cmd = call->what,
			.params = call->size ? (unsigned long)params : 0,
			.size = call->size,
			.status = UNTOUCHED,
		},
	};

	operations.op(sp, &op);
	return op.control.status;
}

static void probe(void *sp, u32 client, void *params)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		struct call *call = &calls[i];

		memset(params, 0, ROOM);
		((u32 *)params)[call->word] = call->value;
		((u32 *)params)[call->word + 1] = call->value;
		call->status = call->alloc ? allocate(sp, client, call, params) :
					     control(sp, client, call, params);
	}
}

/* The core looks for the client before it looks at an address space. */
static void probe_channels(u32 client, void *params)
{
	void *of_uvm, *retained = NULL;

	memset(params, 0, ROOM);
	session = nvUvmInterfaceSessionCreate(&of_uvm, params);
	if (!session)
		nvUvmInterfaceSessionDestroy(of_uvm);
	memset(params, 0, ROOM);
	retain_nowhere = nvUvmInterfaceRetainChannel(NULL, client, NOBODY, &retained, params);
	retain_of_nobody = nvUvmInterfaceRetainChannel(params, NOBODY, NOBODY, &retained,
						       params + ROOM / 2);
}

static int statuses_show(struct seq_file *seq, void *data)
{
	size_t i;

	seq_printf(seq, "client 0x%x\n", client_made);
	for (i = 0; i < ARRAY_SIZE(calls); i++)
		seq_printf(seq, "%s 0x%x\n", calls[i].name, calls[i].status);
	seq_printf(seq, "session_of_uvm 0x%x\n", session);
	seq_printf(seq, "retain_without_space 0x%x\n", retain_nowhere);
	seq_printf(seq, "retain_of_nobody 0x%x\n", retain_of_nobody);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(statuses);

static int __init coreprobe_init(void)
{
	void *params, *sp = NULL;
	u32 client = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(versions); i++) {
		operations.version = versions[i];
		if (!nvidia_get_rm_ops(&operations))
			break;
	}
	if (i == ARRAY_SIZE(versions)) {
		pr_err("nvidia.ko is of another version\n");
		return -EPROTONOSUPPORT;
	}
	params = kzalloc(ROOM, GFP_KERNEL);
	if (!params || operations.alloc_stack(&sp)) {
		kfree(params);
		return -ENOMEM;
	}
	client_made = make_client(sp, &client);
	if (!client_made) {
		probe(sp, client, params);
		probe_channels(client, params);
		free_client(sp, client);
	}
	operations.free_stack(sp);
	kfree(params);
	file = debugfs_create_file("coreprobe", 0400, NULL, NULL, &statuses_fops);
	return 0;
}

static void __exit coreprobe_exit(void)
{
	debugfs_remove(file);
}

module_init(coreprobe_init);
module_exit(coreprobe_exit);

MODULE_DESCRIPTION("Calls of the core of NVIDIA's driver on a GPU that was never started");
MODULE_LICENSE("GPL");
