/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The core's escapes, classes and controls that the hook knows, with the layouts of their
 * parameters.
 */
#ifndef NV_ZERNEL_CORE_H
#define NV_ZERNEL_CORE_H

#include "nv-linux.h"
#include "nv.h"

/* That the GPU is started, as 550 and older drivers name it. */
#ifndef NV_FLAG_INITIALIZED
#define NV_FLAG_INITIALIZED	NV_FLAG_OPEN
#endif

/* Escapes that the hook looks at, with the layouts of their parameters. */
#define NVZ_ESC_ALLOC_OBJECT		0x28
#define NVZ_ESC_FREE			0x29
#define NVZ_ESC_CONTROL			0x2a
#define NVZ_ESC_ALLOC			0x2b
#define NVZ_ESC_DUP			0x34
#define NVZ_ESC_HEAP_CONTROL		0x4a
#define NVZ_ESC_ALLOC_CONTEXT_DMA	0x54
#define NVZ_ESC_REGISTER_FD		0xc9

struct nvz_esc_alloc_object {
	u32 client, parent, object, class, status;
};

struct nvz_esc_free {
	u32 client, parent, object, status;
};

struct nvz_esc_control {
	u32 client, object, cmd, flags;
	u64 params;
	u32 size, status;
};

struct nvz_esc_alloc {
	u32 client, parent, object, class;
	u64 params;
	u32 size, status;
};

struct nvz_esc_alloc_rights {
	u32 client, parent, object, class;
	u64 params, rights;
	u32 size, flags, status, pad;
};

struct nvz_esc_dup {
	u32 client, parent, object, source_client, source, flags, status;
};

struct nvz_esc_heap_control {
	u32 client, parent, function, va_space, heap, status;
	u64 total, free;
	union {
		struct {
			u32 owner, object, flags;
		} of_free;
		struct {
			u32 object, flags;
		} of_hw_free;
	};
};

struct nvz_esc_alloc_context_dma {
	u32 client, subdevice, object, class, flags, selector, memory, pad;
	u64 offset, limit;
	u32 status, pad2;
};

#define NVZ_ALLOC_SERIALIZED		0x1	/* flags of nvz_esc_alloc_rights */
#define NVZ_CONTROL_SERIALIZED		0x4	/* flags of nvz_esc_control */

/* Functions of nvz_esc_heap_control that free an object of any class. */
#define NVZ_HEAP_FREE			3
#define NVZ_HEAP_HW_FREE		20

/* Classes that are followed; channels, compute and 3D classes are known by their low byte. */
#define NVZ_CLASS_ROOT			0x0000
#define NVZ_CLASS_ROOT_NON_PRIV		0x0001
#define NVZ_CLASS_MEMORY		0x003e
#define NVZ_CLASS_ROOT_CLIENT		0x0041
#define NVZ_CLASS_DEVICE		0x0080
#define NVZ_CLASS_SUBDEVICE		0x2080
#define NVZ_CLASS_MPS			0x900e
#define NVZ_CLASS_CONTEXT_SHARE		0x9067
#define NVZ_CLASS_EVENT_BUFFER		0x90cd
#define NVZ_CLASS_VA_SPACE		0x90f1
#define NVZ_CLASS_TSG			0xa06c
#define NVZ_CLASS_MIG_INSTANCE		0xc637	/* of a GPU */
#define NVZ_CLASS_MIG_COMPUTE		0xc638	/* of an instance of a GPU */

/* Controls that the hook uses or looks at, beside those of nv-zernel.h. */
#define NVZ_CTRL_GET_TIMESLICE		0xa06c0104U
#define NVZ_CTRL_PREEMPT		0xa06c0105U
#define NVZ_CTRL_TSG_INFO		0xa06c0106U
#define NVZ_CTRL_RESTART_RUNLIST	0xa06f0111U
#define NVZ_CTRL_GPU_ID_INFO		0x00000205U
#define NVZ_CTRL_HANDLE_INFO		0x00000d02U
#define NVZ_CTRL_CHANNEL_PROPERTIES	0x0080170fU
#define NVZ_CTRL_GPU_ID			0x20800142U
#define NVZ_CTRL_RUNLIST_BASES		0x20800179U
#define NVZ_CTRL_CHANNEL_LIST		0x0080170dU
#define NVZ_CTRL_VIRTUAL_MODE		0x00800289U
#define NVZ_CTRL_DEVICE_TABLE		0x20801112U
#define NVZ_CTRL_RUNLIST_POLICY		0x20801115U
#define NVZ_CTRL_TIME			0x20800403U
#define NVZ_CTRL_BIND_SWITCHES		0x20801238U
#define NVZ_CTRL_RING_ENABLE		0x90cd0101U
#define NVZ_CTRL_RING_GET		0x90cd0102U
#define NVZ_CTRL_RING_FLUSH		0x90cd0104U
#define NVZ_CTRL_START_CHANNELS		0x00801705U
#define NVZ_CTRL_CHANNEL_RESET		0x906f0102U
#define NVZ_CTRL_CHANNEL_SCHEDULE	0xa06f0103U
#define NVZ_CTRL_CHANNEL_INTERLEAVE	0xa06f0109U
#define NVZ_CTRL_STOP_CHANNEL		0xa06f0112U
#define NVZ_CTRL_CONTEXT		0xa06f0113U	/* from 595 on */
#define NVZ_CTRL_MAKE_REALTIME		0xa06c0110U

/* CHANNEL_RESET and CHANNEL_SCHEDULE by other numbers, in 550. */
#define NVZ_CTRL_CHANNEL_RESET_A06F	0xa06f0102U
#define NVZ_CTRL_CHANNEL_SCHEDULE_A16F	0xa16f0103U
#define NVZ_CTRL_CHANNEL_SCHEDULE_A26F	0xa26f0103U
#define NVZ_CTRL_CHANNEL_SCHEDULE_B06F	0xb06f0103U
#define NVZ_CTRL_CHANNEL_SCHEDULE_C06F	0xc06f0103U
#define NVZ_CTRL_CHANNEL_SCHEDULE_C36F	0xc36f0103U

/* Interleave levels: that of a new TSG in the core, and the highest. */
#define NVZ_LEVEL_DEFAULT	1
#define NVZ_LEVEL_MAX		2

/* Engine types of graphics and compute; 1 is the first. */
#define NVZ_ENGINE_GR_FIRST		1
#define NVZ_ENGINE_GR_LAST		8

/* Where hints are in the parameters of objects. */
#define NVZ_DEVICE_INSTANCE_AT		0
#define NVZ_MIG_INSTANCE_AT		8
#define NVZ_TSG_ENGINE_AT		12
#define NVZ_CHANNEL_USERD_AT		32

#endif /* NV_ZERNEL_CORE_H */
