/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The interface between a patched nvidia.ko and zernel.
 *
 * nvidia.ko keeps a table of the clients, devices, subdevices, TSGs and channels that user space
 * makes, from its load on. zernel_nvidia.ko registers here, is told of present ones, and then
 * follows changes.
 *
 * Versioning: every structure begins with its size; fields are only appended;
 * NV_ZERNEL_ABI grows when the meaning of something changes.
 *
 * Context: every function and every callback runs in process context and may
 * sleep. tsg_added, tsg_changed and tsg_removed come one at a time and in order,
 * under a mutex of the table, which functions for TSGs take for a moment too:
 * they must not wait for such a function that is under way. gpu_added,
 * gpu_removed, suspended and resumed come one at a time as well, under another
 * mutex that none of those takes, so they may wait.
 */
#ifndef NV_ZERNEL_H
#define NV_ZERNEL_H

#include <linux/types.h>

struct module;
struct pid;

#define NV_ZERNEL_ABI		2

/* Flags of struct nv_zernel_tsg. */
#define NV_ZERNEL_TSG_COMPUTE	(1U << 0)	/* a compute or 3D object was made on it, or its engine type says so */
#define NV_ZERNEL_TSG_MPS	(1U << 1)	/* made through a file that serves MPS clients */
#define NV_ZERNEL_TSG_TRACED	(1U << 2)	/* records name the contexts of all its channels */

/* Flags of struct nv_zernel_gpu. */
#define NV_ZERNEL_GPU_OBSERVED	(1U << 0)	/* calls are seen when the driver has answered: none can be denied */

/* The value of fields of a TSG that could not be learned. */
#define NV_ZERNEL_UNKNOWN	0xffffffffU

/* As which controls of a user's own TSG are reported. */
#define NV_ZERNEL_CTRL_SET_TIMESLICE	0xa06c0103U
#define NV_ZERNEL_CTRL_SET_INTERLEAVE	0xa06c0107U
#define NV_ZERNEL_CTRL_SCHEDULE		0xa06c0101U	/* that it is scheduled, as programs begin */
#define NV_ZERNEL_CTRL_DISABLE_CHANNELS	0x2080110bU	/* that it is scheduled or not, or sooner */

/* Answers to a user's control of its own TSG. */
#define NV_ZERNEL_ALLOW		0	/* hand it to the driver */
#define NV_ZERNEL_DENY		1	/* NV_ERR_INSUFFICIENT_PERMISSIONS */
#define NV_ZERNEL_OBSERVE	2	/* hand it to the driver, but see user_controlled */

/**
 * struct nv_zernel_gpu - a GPU
 * @size: sizeof(struct nv_zernel_gpu)
 * @gpu_id: the driver's number of it, as in NV2080_CTRL_CMD_GPU_GET_ID
 * @name: product, for people
 * @bus: PCI address
 * @driver: version of the driver, for people, and the mode if it has no hooks
 * @flags: NV_ZERNEL_GPU_*
 */
struct nv_zernel_gpu {
	u32 size;
	u32 gpu_id;
	char name[64];
	char bus[20];
	char driver[32];
	u32 flags;
};

/**
 * struct nv_zernel_tsg - a TSG that user space made
 * @size: sizeof(struct nv_zernel_tsg)
 * @gpu_id: its GPU
 * @id: number of it in the table; never used again while nvidia.ko is loaded
 * @flags: NV_ZERNEL_TSG_*
 * @hw_tsg: the driver's number, or NV_ZERNEL_UNKNOWN
 * @engine: NV2080_ENGINE_TYPE_* that it was made for, or NV_ZERNEL_UNKNOWN; local to
 *          the MIG instance if there is one. That of GR0 for a TSG with a compute or 3D
 *          object that claimed another one
 * @mig: MIG instance (swizzId) that its client subscribed to, or NV_ZERNEL_UNKNOWN
 * @channels: number of channels now
 * @runlist: its run list, by the address of that one's registers in BAR 0; 0: the driver does not
 *           tell, as for GPUs before Ampere
 * @process: its maker, PIDTYPE_TGID; valid during the callback
 * @thread: its maker, PIDTYPE_PID; valid during the callback
 * @compute: compute instance of @mig that its client subscribed to, or NV_ZERNEL_UNKNOWN
 * @reserved: zero
 */
struct nv_zernel_tsg {
	u32 size;
	u32 gpu_id;
	u64 id;
	u32 flags;
	u32 hw_tsg;
	u32 engine;
	u32 mig;
	u32 channels;
	u32 runlist;
	struct pid *process;
	struct pid *thread;
	u32 compute;
	u32 reserved;
};

/**
 * struct nv_zernel_counts - the present sizes of the table
 * @size: sizeof(struct nv_zernel_counts)
 * @files: control files with at least one client
 * @clients: clients
 * @devices: devices
 * @subdevices: subdevices
 * @tsg_handles: handles of TSGs; a duplicated TSG has several
 * @tsgs: TSGs
 * @channels: channels
 * @gpus: GPUs
 * @forgotten: objects that could not be recorded for want of memory, since load
 */
struct nv_zernel_counts {
	u32 size;
	u32 files;
	u32 clients;
	u32 devices;
	u32 subdevices;
	u32 tsg_handles;
	u32 tsgs;
	u32 channels;
	u32 gpus;
	u32 forgotten;
};

/**
 * struct nv_zernel_ops - the functions of the listener
 * @size: sizeof(struct nv_zernel_ops)
 * @abi: NV_ZERNEL_ABI
 * @owner: THIS_MODULE
 * @gpu_added: a GPU was bound to the driver
 * @gpu_removed: the driver lets it go
 * @tsg_added: user space made a TSG
 * @tsg_changed: number of channels, flags, engine or run list changed
 * @tsg_removed: the last handle of the TSG is gone
 * @user_control: a process asks to change the time slice or interleave level of its own
 *                TSG, or that it is scheduled; @cmd is NV_ZERNEL_CTRL_SET_TIMESLICE,
 *                _SET_INTERLEAVE, _SCHEDULE or _DISABLE_CHANNELS. _DENY to _SCHEDULE
 *                keeps a program from running at all. Returns
 *                NV_ZERNEL_ALLOW, _DENY or _OBSERVE. Under no mutex of the table,
 *                but under the lock of the caller's control file, which nobody else
 *                waits for. On a GPU with NV_ZERNEL_GPU_OBSERVED the driver has
 *                done it already, and _DENY is as _OBSERVE.
 * @user_controlled: the driver was asked for such a control, and may have carried it
 *                   out, also if it reported an error; also after NV_ZERNEL_ALLOW,
 *                   because the answer may have been old by then. Called as
 *                   @user_control is.
 * @suspended: the driver answers no control from now on
 * @resumed: it does again
 *
 * All are present. @priv is the pointer given at registration.
 */
struct nv_zernel_ops {
	u32 size;
	u32 abi;
	struct module *owner;
	void (*gpu_added)(void *priv, const struct nv_zernel_gpu *gpu);
	void (*gpu_removed)(void *priv, u32 gpu_id);
	void (*tsg_added)(void *priv, const struct nv_zernel_tsg *tsg);
	void (*tsg_changed)(void *priv, const struct nv_zernel_tsg *tsg);
	void (*tsg_removed)(void *priv, u32 gpu_id, u64 tsg);
	u32 (*user_control)(void *priv, u32 gpu_id, u64 tsg, u32 cmd);
	void (*user_controlled)(void *priv, u32 gpu_id, u64 tsg, u32 cmd);
	void (*suspended)(void *priv);
	void (*resumed)(void *priv);
};

/**
 * nv_zernel_register() - be told of GPUs and TSGs
 * @ops: must stay valid until nv_zernel_unregister() has returned
 * @priv: handed to every callback
 *
 * Tells of everything that is there before it returns, GPUs first.
 *
 * Return: 0, -EINVAL @ops lacks something, -EPROTO another @abi, -EBUSY
 * somebody is registered.
 */
int nv_zernel_register(const struct nv_zernel_ops *ops, void *priv);

/**
 * nv_zernel_unregister() - be told no more
 * @ops: from nv_zernel_register(); another one is ignored
 *
 * Returns when no callback is under way or will come. Must not be called from
 * one.
 */
void nv_zernel_unregister(const struct nv_zernel_ops *ops);

/* Fields of struct nv_zernel_tsg_settings. */
#define NV_ZERNEL_TSG_TIMESLICE		(1U << 0)
#define NV_ZERNEL_TSG_INTERLEAVE	(1U << 1)
#define NV_ZERNEL_TSG_ENABLED		(1U << 2)

/**
 * struct nv_zernel_tsg_settings - the settings of a TSG
 * @size: sizeof(struct nv_zernel_tsg_settings)
 * @fields: NV_ZERNEL_TSG_*, of those that are meant
 * @timeslice_us: the longest time on the engine at once, in microseconds
 * @interleave: how often it is in its run list, 0 to 2; counts where the run lists heed it
 * @enabled: 1, its channels are scheduled, 0, they are not
 * @reserved: zero
 */
struct nv_zernel_tsg_settings {
	u32 size;
	u32 fields;
	u64 timeslice_us;
	u32 interleave;
	u32 enabled;
	u64 reserved;
};

/**
 * nv_zernel_tsg_configure() - change settings of a TSG with the driver's own privilege
 * @tsg: number in the table
 * @settings: in: those to change; out: in @fields those that the driver carried out
 * @status: NV_STATUS of the driver, when 0 is returned
 *
 * In the order of the fields, until the driver refuses one. Works whether or not anybody is
 * registered. While it runs, the handles that it uses cannot be freed. May wait for the driver's own
 * locks.
 *
 * NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS enables and disables all channels that the TSG has
 * now, by a subdevice of zernel's own on the GPU. The driver takes 64 channels at once; when it
 * refuses a lot, it is asked for each channel, and tried once more without those that are gone. If it
 * still refuses one, that lot and the earlier ones are put to the opposite.
 *
 * Calls for one TSG come one at a time: else what is remembered can differ from what is set.
 *
 * Return: 0 when the driver answered, and with nothing changed -EINVAL the size is too small, a field
 * is not known or out of its range, there is none, or @reserved is not zero; else with what @fields tells -ENOENT no such
 * TSG, -EAGAIN the driver is suspended, -ENOMEM.
 */
int nv_zernel_tsg_configure(u64 tsg, struct nv_zernel_tsg_settings *settings, u32 *status);

/**
 * nv_zernel_tsg_query() - ask for settings of a TSG
 * @tsg: number in the table
 * @settings: in: in @fields those to tell; out: these
 * @status: NV_STATUS of the driver, when 0 is returned; with an error nothing is told
 *
 * The driver is asked for the time slice alone. It cannot be asked for the others: an interleave level
 * is the last one given to the TSG, that of a privileged process as that process said, and enabled is
 * as it was last configured here: a change by its process since does not show.
 *
 * Return: as nv_zernel_tsg_configure().
 */
int nv_zernel_tsg_query(u64 tsg, struct nv_zernel_tsg_settings *settings, u32 *status);

/**
 * nv_zernel_tsg_preempt() - take the engine away from a TSG, and wait for that
 * @tsg: number in the table
 * @timeout_us: for so many microseconds at most
 * @status: NV_STATUS of the driver, when 0 is returned
 *
 * Return: 0 when the driver answered, or the TSG has no channel yet, and as
 * nv_zernel_tsg_configure().
 */
int nv_zernel_tsg_preempt(u64 tsg, u32 timeout_us, u32 *status);

/**
 * nv_zernel_tsg_restart() - end the running slice of the run list of a TSG
 * @tsg: number in the table
 * @status: NV_STATUS of the driver, when 0 is returned
 *
 * The list begins anew, with those of the highest level; a slice of that TSG itself goes on. Does not
 * wait for it.
 *
 * Return: as nv_zernel_tsg_preempt().
 */
int nv_zernel_tsg_restart(u64 tsg, u32 *status);

/**
 * nv_zernel_runlists_interleave() - have the run lists of a GPU heed interleave levels
 * @gpu_id: the GPU
 * @on: set the policy with a client of zernel's own, or free zernel's clients on the
 *      GPU, which gives the run lists their policy back
 * @status: NV_STATUS of the driver, when 0 is returned
 *
 * The policy goes with the client that set it. zernel's clients are also freed before
 * the GPU is stopped, and when the listener leaves. To free it, this waits
 * while the driver is suspended, so that it cannot outlive the caller.
 *
 * Return: 0 when the driver answered, -ENOENT no such GPU or it is not started; with
 * @on also -EAGAIN the driver is suspended, -ENOMEM.
 */
int nv_zernel_runlists_interleave(u32 gpu_id, bool on, u32 *status);

/* Most channels of a TSG in one look. */
#define NV_ZERNEL_SAMPLE_MAX		15

/* Most TSGs in one call. */
#define NV_ZERNEL_LOOKS_MAX		16

/* Flags of struct nv_zernel_sample. */
#define NV_ZERNEL_SAMPLE_ASLEEP		(1U << 0)	/* the GPU sleeps; nothing was read */
#define NV_ZERNEL_SAMPLE_PCCSR		(1U << 1)	/* @words are NV_PCCSR_CHANNEL, of Turing */
#define NV_ZERNEL_SAMPLE_GONE		(1U << 2)	/* no such TSG on the GPU; nothing was read */

/**
 * struct nv_zernel_sample - the channels of a TSG at a moment; one of several, which have no size
 * @tsg: in: number in the table
 * @first: in: the number of channels to skip; out: that were skipped, 0 if there are no more
 * @flags: out: NV_ZERNEL_SAMPLE_*
 * @channels: out: of the TSG
 * @count: out: of @words
 * @engine: out: NV_RUNLIST_ENGINE_STATUS0 of the first engine of its run list; NV_ZERNEL_UNKNOWN:
 *          not known
 * @words: out: NV_CHRAM_CHANNEL of each channel; NV_ZERNEL_UNKNOWN: not known
 */
struct nv_zernel_sample {
	u64 tsg;
	u32 first;
	u32 flags;
	u32 channels;
	u32 count;
	u32 engine;
	u32 words[NV_ZERNEL_SAMPLE_MAX];
};

/**
 * nv_zernel_tsgs_sample() - read the state of channels of TSGs from a GPU's registers
 * @gpu_id: the GPU
 * @samples: the TSGs; what was read of them, unless there is an error
 * @count: of them, from 1 to NV_ZERNEL_LOOKS_MAX
 *
 * For each TSG one register for the engine and one for each channel. Asks the driver where they are
 * at the first call after a start or resume of the GPU. Does not wake a GPU that sleeps.
 *
 * Return: the number of values, one for the engine and one for each word of samples that are neither
 * GONE nor ASLEEP, -EINVAL @count, -EOPNOTSUPP nothing can be read: a
 * chip that is not known, a guest's part of a GPU, or confidential computing, -EAGAIN the driver is
 * suspended or could not tell for now, or the GPU is stopped or does not answer, -EIO the GPU is being
 * pulled out or did not come back from a suspend, -ENOMEM.
 */
int nv_zernel_tsgs_sample(u32 gpu_id, struct nv_zernel_sample *samples, u32 count);

/**
 * nv_zernel_engines_sample() - read the state of engines from the GPU's registers
 * @gpu_id: the GPU
 * @runlists: run lists, as in struct nv_zernel_tsg
 * @values: NV_RUNLIST_ENGINE_STATUS0 of the first engine of each; NV_ZERNEL_UNKNOWN: not
 *          known; 0, idle, for a GPU that sleeps
 * @count: of both, NV_ZERNEL_SAMPLE_MAX at most
 *
 * Return: 0, -EINVAL @count, -ENOENT no such GPU or it is not started, and the other errors of
 * nv_zernel_tsgs_sample().
 */
int nv_zernel_engines_sample(u32 gpu_id, const u32 *runlists, u32 *values, u32 count);

/* Flags of struct nv_zernel_records. */
#define NV_ZERNEL_RECORDS_FLUSH	(1U << 0)	/* in: have the driver fetch those that all GPUs have */
#define NV_ZERNEL_RECORDS_INSTANCE (1U << 1)	/* in: of a MIG instance */

/**
 * struct nv_zernel_record - a step of a context switch, as the GPU's own switcher (FECS) tells it
 * @tsg: whose context it is about; 0: not known for certain
 * @at_ns: when, by the GPU's clock
 * @context: the driver's number of the context; each channel has one
 * @number: sequence number, counted up for records that the driver drops, too
 * @tag: the step, NV_EVENT_BUFFER_FECS_CTXSWTAG_* of the driver
 * @compute: the compute instance whose engine it is about; NV_ZERNEL_RECORD_WHOLE: there is none,
 *           or another value: one that the driver does not know
 */
struct nv_zernel_record {
	u64 tsg;
	u64 at_ns;
	u32 context;
	u16 number;
	u8 tag;
	u8 compute;
};

#define NV_ZERNEL_RECORD_WHOLE	0xff

/**
 * struct nv_zernel_records - a read of records
 * @size: sizeof(struct nv_zernel_records)
 * @flags: NV_ZERNEL_RECORDS_*
 * @ring: with another number than the last time, records begin anew, with any sequence number
 * @count: in: room in the list; out: records in it
 * @left: in the ring of the driver, perhaps with others that are none
 * @instance: with NV_ZERNEL_RECORDS_INSTANCE: the MIG instance, below 15
 * @dropped: by the driver, as its ring was full, and not told before; 0 while some are left
 * @gpu_ns: the GPU's clock, before the records were fetched
 * @cpu_ns: CLOCK_MONOTONIC at that time
 * @error_ns: the largest error of that; all ones: the driver did not tell the GPU's clock
 */
struct nv_zernel_records {
	u32 size;
	u32 flags;
	u32 ring;
	u32 count;
	u32 left;
	u32 instance;
	u64 dropped;
	u64 gpu_ns;
	u64 cpu_ns;
	u64 error_ns;
};

/**
 * nv_zernel_records_read() - read the records of context switches of a GPU's compute engines
 * @gpu_id: the GPU
 * @records: about the read
 * @list: filled in
 *
 * The first read has them written, and two seconds after the last one the driver stops. So it does
 * in a suspend, when the GPU stops, and when the listener leaves. That first read is done by a kernel
 * thread, as the driver would hide other users' contexts from a program. Does not wake a GPU that
 * sleeps.
 *
 * A GPU with MIG instances has records for each of them and none as a whole. Those of its compute
 * instances come in any order among each other.
 *
 * Return: 0, -EINVAL the size is too small, there is no room or no such instance can be, -ENODEV
 * nobody is registered, -ENOENT no such GPU or it is not started, -EOPNOTSUPP the driver has none
 * for this GPU or instance, -EHOSTDOWN it sleeps, -EAGAIN the driver is suspended or could not do it
 * for now, or the current task is a program and would be the first, -EIO the driver failed, or the
 * GPU is being pulled out or did not come back from a suspend, -ENOMEM.
 */
int nv_zernel_records_read(u32 gpu_id, struct nv_zernel_records *records,
			   struct nv_zernel_record *list);

/**
 * nv_zernel_count() - count the objects in the table
 * @counts: filled in
 */
void nv_zernel_count(struct nv_zernel_counts *counts);

#ifdef _NV_LINUX_H_
/* The places in the interface layer that the hooks are put into. */
NV_STATUS nv_zernel_rm_ioctl(nvidia_stack_t *sp, nv_state_t *nv, nv_file_private_t *nvfp,
			     NvU32 cmd, void *data, NvU32 size);
void nv_zernel_file_close(nv_file_private_t *nvfp);
void nv_zernel_gpu_added(nv_state_t *nv);
void nv_zernel_gpu_removed(nv_state_t *nv);
void nv_zernel_gpu_started(nv_state_t *nv);
void nv_zernel_gpu_stopped(nv_state_t *nv);
void nv_zernel_suspended(void);
void nv_zernel_resumed(void);
NV_STATUS nv_zernel_device_suspend(NV_STATUS (*suspend)(struct device *, nv_pm_action_t, NvBool),
				   struct device *dev, nv_pm_action_t action, NvBool procfs);
NV_STATUS nv_zernel_device_resume(NV_STATUS (*resume)(struct device *, nv_pm_action_t),
				  struct device *dev, nv_pm_action_t action);

/* In place of the driver's own functions, which only its nv.c knows. */
#define nv_zernel_suspend(dev, action, procfs) \
	nv_zernel_device_suspend(nvidia_suspend, dev, action, procfs)
#define nv_zernel_resume(dev, action)	nv_zernel_device_resume(nvidia_resume, dev, action)
#endif

#endif /* NV_ZERNEL_H */
