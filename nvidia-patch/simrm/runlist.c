// SPDX-License-Identifier: GPL-2.0
/*
 * Run lists: one for each engine of the GPU or of a MIG instance, and for each graphics engine of
 * a compute instance.
 */
#include "engine.h"
#include "simrm.h"

static const struct simrm_object *child(const struct simrm_object *parent, enum simrm_kind kind)
{
	const struct simrm_object *object;

	list_for_each_entry(object, &parent->children, sibling) {
		if (object->kind == kind && !object->lost)
			return object;
	}
	return NULL;
}

/* The instances that the client of @device has subscribed to, or SIMRM_NO_MIG. */
void simrm_instances_of(const struct simrm_object *device, u8 *mig, u8 *compute)
{
	const struct simrm_object *subdevice, *part, *smaller;

	*mig = *compute = SIMRM_NO_MIG;
	list_for_each_entry(subdevice, &device->children, sibling) {
		part = subdevice->kind == SIMRM_SUBDEVICE ? child(subdevice, SIMRM_MIG_GPU) : NULL;
		if (!part)
			continue;
		*mig = part->mig;
		smaller = child(part, SIMRM_MIG_COMPUTE);
		if (smaller)
			*compute = smaller->mig;
		return;
	}
}

u32 simrm_runlist_of(const struct simrm_object *device, u32 engine)
{
	u8 mig, compute;
	u32 part;

	simrm_instances_of(device, &mig, &compute);
	if (mig == SIMRM_NO_MIG)
		return engine;
	part = 1 + mig * (RM_MIG_MAX + 1);
	if (compute != SIMRM_NO_MIG && engine <= RM_ENGINE_GR7)
		part += 1 + compute;
	return part * RM_ENGINE_COUNT + engine;
}

/* The address of its registers in BAR 0; beyond that for MIG, where it has none. */
u32 simrm_runlist_base(u32 runlist)
{
	return SIMRM_RUNLIST_BASE + runlist * SIMRM_RUNLIST_SIZE;
}

u32 simrm_runlist_bases(struct simrm_object *object, const struct simrm_caller *who, void *params)
{
	struct rm_bases *list = params;
	u32 status = RM_OK;
	unsigned int i;

	for (i = 0; i < RM_BASES_ENGINES; i++) {
		u32 engine = list->engines[i];

		list->bases[i] = RM_BASES_NONE;
		list->numbers[i] = RM_BASES_NONE;
		if (!engine)
			continue;
		if (engine >= RM_ENGINE_COUNT) {
			list->bases[i] = RM_BASES_ERROR;
			status = RM_OBJECT_NOT_FOUND;
			continue;
		}
		list->numbers[i] = simrm_runlist_of(object->parent, engine);
		list->bases[i] = simrm_runlist_base(list->numbers[i]);
	}
	return status;
}
