// SPDX-License-Identifier: GPL-2.0
/*
 * Faults on demand: which operation is to be slow or to fail, and how often.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "simrm.h"

#define MAX_FAULTS	32
#define MAX_DELAY_US	60000000U
#define FOREVER		U32_MAX

struct fault {
	enum simrm_what what;
	u32 number;		/* of the control, class or action; all: 0 */
	u32 status;
	u32 delay_us;
	u32 left;
	bool users;
	bool kernel;
};

static const char * const names[] = {
	[SIMRM_ON_CONTROL] = "control", [SIMRM_ON_COPY] = "copy", [SIMRM_ON_ALLOC] = "alloc",
	[SIMRM_ON_FREE] = "free", [SIMRM_ON_DUP] = "dup", [SIMRM_ON_START] = "start",
	[SIMRM_ON_POWER] = "power", [SIMRM_ON_MAP] = "map",
};

static DEFINE_SPINLOCK(lock);
static struct fault faults[MAX_FAULTS];
static unsigned int count;
/* Times that all faults were forgotten: that ends long delays, too. */
static unsigned int forgotten;
static DECLARE_WAIT_QUEUE_HEAD(delayed);

static void delay(u32 us, unsigned int since)
{
	if (us < USEC_PER_SEC)
		fsleep(us);
	else
		wait_event_timeout(delayed, READ_ONCE(forgotten) != since, usecs_to_jiffies(us));
}

static void remove(unsigned int i)
{
	count--;
	memmove(&faults[i], &faults[i + 1], (count - i) * sizeof(faults[0]));
}

/*
 * Returns the status that the operation is to fail with, RM_OK when it is to be
 * carried out; after the time that it is to take.
 */
u32 simrm_fault(enum simrm_what what, u32 number, bool kernel)
{
	u32 status = RM_OK, delay_us = 0;
	struct fault *fault;
	unsigned int i, since;

	if (!READ_ONCE(count))
		return RM_OK;
	spin_lock(&lock);
	since = forgotten;
	for (i = 0; i < count; i++) {
		fault = &faults[i];
		if (fault->what != what || (fault->number && fault->number != number))
			continue;
		if (kernel ? !fault->kernel : !fault->users)
			continue;
		status = fault->status;
		delay_us = fault->delay_us;
		if (fault->left != FOREVER && !--fault->left)
			remove(i);
		break;
	}
	spin_unlock(&lock);
	if (delay_us)
		delay(delay_us, since);
	return status;
}

static int parse(char *text, struct fault *fault)
{
	char *what, *word;
	unsigned int i;

	*fault = (struct fault) { .left = 1, .users = true, .kernel = true };
	what = strsep(&text, " ");
	word = strchr(what, ':');
	if (word) {
		*word++ = '\0';
		if (kstrtou32(word, 0, &fault->number))
			return -EINVAL;
	}
	for (i = 0; i < ARRAY_SIZE(names) && strcmp(what, names[i]); i++)
		;
	if (i == ARRAY_SIZE(names))
		return -EINVAL;
	fault->what = i;
	while ((word = strsep(&text, " "))) {
		if (!*word)
			continue;
		if (!strcmp(word, "users"))
			fault->kernel = false;
		else if (!strcmp(word, "kernel"))
			fault->users = false;
		else if (!strcmp(word, "timeout"))
			fault->status = RM_TIMEOUT;
		else if (!strcmp(word, "forever"))
			fault->left = FOREVER;
		else if (!strncmp(word, "status=", 7) && !kstrtou32(word + 7, 0, &fault->status))
			;
		else if (!strncmp(word, "us=", 3) && !kstrtou32(word + 3, 0, &fault->delay_us))
			;
		else if (!strncmp(word, "times=", 6) && !kstrtou32(word + 6, 0, &fault->left))
			;
		else
			return -EINVAL;
	}
	if (!fault->users && !fault->kernel)
		return -EINVAL;
	return fault->delay_us <= MAX_DELAY_US && fault->left ? 0 : -EINVAL;
}

/* "none" forgets all faults; anything else adds one. README has the words. */
static int faults_set(const char *value, const struct kernel_param *kp)
{
	struct fault fault;
	char *text, *words;
	int err = 0;

	text = kstrdup(value, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	words = strim(text);
	if (!strcmp(words, "none")) {
		spin_lock(&lock);
		count = 0;
		WRITE_ONCE(forgotten, forgotten + 1);
		spin_unlock(&lock);
		wake_up_all(&delayed);
	} else {
		err = parse(words, &fault);
		spin_lock(&lock);
		if (!err && count == MAX_FAULTS)
			err = -ENOSPC;
		if (!err)
			faults[count++] = fault;
		spin_unlock(&lock);
	}
	kfree(text);
	return err;
}

static int faults_get(char *buffer, const struct kernel_param *kp)
{
	const struct fault *fault;
	unsigned int i;
	int used = 0;

	spin_lock(&lock);
	for (i = 0; i < count; i++) {
		fault = &faults[i];
		used += scnprintf(buffer + used, PAGE_SIZE - used,
				  "%s:%#x status=%#x us=%u times=%d%s%s\n", names[fault->what],
				  fault->number, fault->status, fault->delay_us, (int)fault->left,
				  fault->kernel ? "" : " users", fault->users ? "" : " kernel");
	}
	spin_unlock(&lock);
	return used;
}

static const struct kernel_param_ops faults_ops = { .set = faults_set, .get = faults_get };
module_param_cb(simrm_faults, &faults_ops, NULL, 0600);
MODULE_PARM_DESC(simrm_faults, "operations to slow down or to fail, see nvidia-patch/simrm/README");
