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

struct rm_kernel_op {
	u32 op;
	u32 pad;
	union {
		struct rm_free free;
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

struct rm_mig_params {
	u64 capability;
	u32 id;
	u32 pad;
};

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

struct rm_policy {
	u32 flags;
	u32 policy;
};

#define RM_POLICY_RESTORE	0x1U
#define RM_POLICY_MAX		2

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
static_assert(sizeof(struct rm_id_info) == 40);
static_assert(sizeof(struct rm_handle_info) == 16);
static_assert(sizeof(struct rm_preempt) == 8);
static_assert(sizeof(struct rm_disable_channels) == 536);

#endif /* SIMRM_ABI_H */
