/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The border to the resource manager: numbers and layouts of the driver's own interface that the
 * software resource manager answers to.
 */
#ifndef SIMRM_ABI_H
#define SIMRM_ABI_H

#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/types.h>

/* NV_STATUS, as far as it is answered here. */
enum simrm_status {
	RM_OK				= 0x00,
	RM_INSERT_DUPLICATE_NAME	= 0x19,
	RM_INSUFFICIENT_RESOURCES	= 0x1a,
	RM_INSUFFICIENT_PERMISSIONS	= 0x1b,
	RM_INVALID_ADDRESS		= 0x1e,
	RM_INVALID_ARGUMENT		= 0x1f,
	RM_INVALID_CLASS		= 0x22,
	RM_INVALID_CLIENT		= 0x23,
	RM_INVALID_COMMAND		= 0x24,
	RM_INVALID_OBJECT_HANDLE	= 0x33,
	RM_INVALID_OBJECT_PARENT	= 0x36,
	RM_INVALID_PARAM_STRUCT		= 0x3a,
	RM_INVALID_STATE		= 0x40,
	RM_IN_USE			= 0x17,
	RM_NO_MEMORY			= 0x51,
	RM_NOT_SUPPORTED		= 0x56,
	RM_OBJECT_NOT_FOUND		= 0x57,
	RM_OUT_OF_RANGE			= 0x5b,
	RM_STATE_IN_USE			= 0x63,
	RM_TIMEOUT			= 0x65,
	RM_VERSION_MISMATCH		= 0x6a,
	RM_RESOURCE_LOST		= 0x6e,
};

/* Escapes, the low byte of an ioctl on a control file. */
#define RM_ESC_FREE		0x29
#define RM_ESC_CONTROL		0x2a
#define RM_ESC_ALLOC		0x2b
#define RM_ESC_DUP		0x34
#define RM_ESC_SHARE		0x35
#define RM_ESC_HEAP_CONTROL	0x4a
#define RM_ESC_REGISTER_FD	201

/* Operations that other kernel modules ask for. */
#define RM_KOP_FREE		0x00
#define RM_KOP_ALLOC		0x15
#define RM_KOP_MAP		0x21
#define RM_KOP_UNMAP		0x22
#define RM_KOP_CONTROL		0x36
#define RM_KOP_DUP		0x37
#define RM_KOP_SHARE		0x3e

struct rm_free {
	u32 root;
	u32 parent;		/* never looked at */
	u32 object;
	u32 status;
};

/* Of memory; of its functions only those that free are carried out. */
struct rm_heap_control {
	u32 root;
	u32 parent;
	u32 function;
	u32 vaspace;
	s16 heap;
	u16 pad;
	u32 status;
	u64 total;
	u64 free;
	union {
		struct {
			u32 owner;
			u32 object;
			u32 flags;
		} of_free;
		struct {
			u32 object;
			u32 flags;
		} of_hw_free;
		u8 room[144];
	};
};

#define RM_HEAP_FREE		3
#define RM_HEAP_HW_FREE		20
#define RM_HEAP_FREE_HANDLE	0x1U	/* flags of of_free: the handle is given */

struct rm_alloc {		/* the short form of ALLOC */
	u32 root;
	u32 parent;
	u32 object;
	u32 class;
	u64 params;
	u32 size;
	u32 status;
};

struct rm_alloc_access {	/* the long form, and the kernel's */
	u32 root;
	u32 parent;
	u32 object;
	u32 class;
	u64 params;
	u64 rights;
	u32 size;
	u32 flags;
	u32 status;
	u32 pad;
};

#define RM_ALLOC_SERIALIZED	0x1U

struct rm_control {
	u32 client;
	u32 object;
	u32 cmd;
	u32 flags;
	u64 params;
	u32 size;
	u32 status;
};

/* A control of simrm's own, which no driver has: see pin.c. */
#define RM_CMD_PIN	0x00007a01

struct rm_pin {
	u64 address;
	u64 count;		/* of pages */
	u64 word;		/* number of a 32-bit word of them */
	u32 action;
	u32 value;
};

#define RM_PIN		1
#define RM_UNPIN	2
#define RM_PIN_STORE	3
#define RM_PIN_LOAD	4

#define RM_CONTROL_IRQL_RAISED	0x1U
#define RM_CONTROL_LOCK_BYPASS	0x2U
#define RM_CONTROL_SERIALIZED	0x4U

struct rm_dup {
	u32 client;
	u32 parent;
	u32 object;
	u32 source_client;
	u32 source_object;
	u32 flags;
	u32 status;
};

struct rm_share {
	u32 client;
	u32 object;
	u32 target;
	u32 rights;
	u16 type;
	u8 action;
	u8 pad;
	u32 status;
};

#define RM_SHARE_ALL		1
#define RM_SHARE_CLIENT		3
#define RM_SHARE_PID		4
#define RM_RIGHT_DUP		0x1U

struct rm_register_fd {
	s32 control;
};

struct rm_map {			/* of memory, into the kernel */
	u32 client;
	u32 device;
	u32 memory;
	u32 pad;
	u64 offset;
	u64 length;
	u64 address;
	u32 status;
	u32 flags;
};

struct rm_unmap {
	u32 client;
	u32 device;
	u32 memory;
	u32 pad;
	u64 address;
	u32 status;
	u32 flags;
};

struct rm_kernel_op {
	u32 op;
	u32 pad;
	union {
		struct rm_free free;
		struct rm_map map;
		struct rm_unmap unmap;
		struct rm_alloc_access alloc;
		struct rm_control control;
		struct rm_dup dup;
		struct rm_share share;
	};
};

/* Beginnings of the parameters that classes are made with. */
struct rm_device_params {
	u32 instance;
	u32 share_client;
	u32 target_client;
	u32 target_device;
	u32 flags;
};

struct rm_tsg_params {
	u32 error;
	u32 ecc_error;
	u32 vaspace;
	u32 engine;
	u8 plugin;
	u8 pad[3];
};

struct rm_share_params {	/* of a context share */
	u32 vaspace;
	u32 flags;
	u32 subcontext;
};

struct rm_channel_params {
	u32 error;
	u32 buffer;
	u64 fifo_offset;
	u32 fifo_entries;
	u32 flags;
	u32 context_share;
	u32 vaspace;
	u32 user_memory[8];
	u64 user_offset[8];
	u32 engine;
	u32 id;
};

struct rm_memory_params {	/* only the size counts */
	u32 unused[12];
	u64 range[2];
	u64 size;
	u64 unused2[4];
	u32 unused3[6];
};

struct rm_event_buffer {
	u64 header_address;
	u64 records_address;
	u32 record_size;
	u32 record_count;
	u64 data_address;
	u32 data_size;
	u32 records_threshold;
	u64 notification;
	u32 data_threshold;
	u32 subdevice;
	u32 flags;
	u32 header;
	u32 records;
	u32 data;
};

/* In the memory of an event buffer. */
struct rm_event_header {
	u32 get;
	u32 put;
	u64 count;
	u64 dropped;
	u64 data_dropped;
};

struct rm_event_record {
	u16 type;
	u16 subtype;
	u32 data;
	u8 tag;
	u8 vm;
	u16 number;
	u32 context;
	u32 process;
	u16 reserved;
	u8 mig;
	u8 compute;
	u64 at;
};

#define RM_EVENT_SWITCH		2	/* type of a record: a step of a context switch */
#define RM_EVENT_NO_COMPUTE	0xfd	/* of a channel in an instance, and in no compute instance */

/* Steps of a context switch, in the order in which they come. */
#define RM_SWITCH_ASKED		0x01
#define RM_SWITCH_ACKNOWLEDGED	0x0d	/* between two instructions */
#define RM_SWITCH_SAVED		0x03
#define RM_SWITCH_RESTORES	0x04
#define RM_SWITCH_RUNS		0x05

struct rm_mig_params {
	u64 capability;
	u32 id;
	u32 pad;
};

#define RM_MIG_MAX		8

#define RM_ENGINE_NULL		0
#define RM_ENGINE_GR0		1
#define RM_ENGINE_GR7		8
#define RM_ENGINE_COPY0		9
#define RM_ENGINE_COUNT		64

/* Parameters of controls. */
struct rm_ids {
	u32 ids[32];
};

struct rm_id_info {
	u32 id;
	u32 flags;
	u32 device;
	u32 subdevice;
	u64 name;
	u32 sli;
	u32 board;
	u32 instance;
	s32 node;
};

struct rm_id_info_v2 {
	u32 id;
	u32 flags;
	u32 device;
	u32 subdevice;
	u32 sli;
	u32 board;
	u32 instance;
	s32 node;
};

struct rm_handle_info {
	u32 object;
	u32 index;
	union {
		u32 handle;
		u64 number;
	};
};

#define RM_HANDLE_PARENT	1
#define RM_HANDLE_CLASS		2

struct rm_preempt {
	u8 wait;
	u8 manual;
	u16 pad;
	u32 timeout_us;
};

#define RM_PREEMPT_MAX_US	1000000U

#define RM_DISABLE_MAX		64

struct rm_disable_channels {
	u8 disable;
	u8 pad[3];
	u32 count;
	u8 only_scheduling;
	u8 rewind;
	u8 pad2[6];
	u64 event;
	u32 clients[RM_DISABLE_MAX];
	u32 channels[RM_DISABLE_MAX];
};

#define RM_BASES_ENGINES	0x54
#define RM_BASES_NONE		0xffffffffU
#define RM_BASES_ERROR		0xfffffffbU

struct rm_bases {		/* of run lists */
	u32 engines[RM_BASES_ENGINES];
	u32 bases[RM_BASES_ENGINES];
	u32 numbers[RM_BASES_ENGINES];
};

struct rm_event_bind {
	u32 buffer;
	u32 record_size;
	u32 detail;		/* 0: all of it */
	u32 filter;
	u8 all_users;
	u8 pad[3];
	u32 reason;
};

struct rm_event_enable {
	u8 enable;
	u8 pad[3];
	u32 policy;
};

#define RM_EVENT_KEEP_OLDEST	1
#define RM_EVENT_KEEP_NEWEST	2

struct rm_event_get {
	u32 records;
	u32 data;
};

struct rm_policy {
	u32 flags;
	u32 policy;
};

#define RM_POLICY_RESTORE	0x1U
#define RM_POLICY_MAX		2

struct rm_restart {		/* of a run list */
	u8 force;		/* also while the channel's TSG has the engine */
	u8 bypass_wait;
};

/* One page of the table of engines. */
#define RM_DEVICE_ENTRIES	32
#define RM_DEVICE_MAX		256

/* Places in rm_device.data. */
#define RM_DEVICE_TYPE		2
#define RM_DEVICE_RUNLIST	3
#define RM_DEVICE_RUNLIST_BASE	11
#define RM_DEVICE_HOST_DRIVEN	12
#define RM_DEVICE_CHRAM_BASE	14

struct rm_device {
	u32 data[16];
	u32 pbdmas[2];
	u32 pbdma_faults[2];
	u32 nr_pbdmas;
	char name[16];
};

struct rm_device_table {
	u32 base;
	u32 count;
	u8 more;
	u8 pad[3];
	struct rm_device devices[RM_DEVICE_ENTRIES];
};

struct rm_channel_list {
	u32 count;
	u32 pad;
	u64 handles;
	u64 ids;
};

#define RM_INVALID_CHANNEL	0xffffffffU

static_assert(sizeof(struct rm_free) == 16);
static_assert(offsetof(struct rm_heap_control, status) == 20);
static_assert(offsetof(struct rm_heap_control, of_free) == 40);
static_assert(sizeof(struct rm_heap_control) == 184);
static_assert(sizeof(struct rm_alloc) == 32);
static_assert(sizeof(struct rm_alloc_access) == 48);
static_assert(sizeof(struct rm_control) == 32);
static_assert(sizeof(struct rm_dup) == 28);
static_assert(sizeof(struct rm_share) == 24);
static_assert(sizeof(struct rm_tsg_params) == 20);
static_assert(offsetof(struct rm_tsg_params, engine) == 12);
static_assert(offsetof(struct rm_channel_params, engine) == 128);
static_assert(offsetof(struct rm_memory_params, size) == 64);
static_assert(sizeof(struct rm_memory_params) == 128);
static_assert(sizeof(struct rm_event_buffer) == 72);
static_assert(sizeof(struct rm_event_header) == 32);
static_assert(sizeof(struct rm_event_record) == 32);
static_assert(sizeof(struct rm_event_bind) == 24);
static_assert(sizeof(struct rm_map) == 48);
static_assert(sizeof(struct rm_id_info) == 40);
static_assert(sizeof(struct rm_handle_info) == 16);
static_assert(sizeof(struct rm_preempt) == 8);
static_assert(sizeof(struct rm_disable_channels) == 536);
static_assert(sizeof(struct rm_restart) == 2);
static_assert(sizeof(struct rm_device) == 100);
static_assert(sizeof(struct rm_device_table) == 3212);
static_assert(sizeof(struct rm_channel_list) == 24);

#endif /* SIMRM_ABI_H */
