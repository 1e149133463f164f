// SPDX-License-Identifier: GPL-2.0
/* Helpers of readahead.rs and detached.rs in rust/glue/core. Included like irqlock.c. */

#include <linux/backing-dev.h>
#include <linux/cgroup.h>
#include <linux/fadvise.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/workqueue.h>

#include "readahead.h"

/* The caller's file, to be read at the caller's expense. */
int zernel_helper_source_open(int fd, struct zernel_source *source)
{
	struct file *file = fget(fd);
	umode_t mode;

	if (!file)
		return -EBADF;
	if (!(file->f_mode & FMODE_READ)) {
		fput(file);
		return -EBADF;
	}
	mode = file_inode(file)->i_mode;
	if (!S_ISREG(mode) && !S_ISBLK(mode)) {
		fput(file);
		return -EINVAL;
	}
	source->file = file;
	source->memcg = get_mem_cgroup_from_mm(current->mm);
#ifdef CONFIG_BLK_CGROUP
	source->blkcg = task_get_css(current, io_cgrp_id);
#endif
	return 0;
}

void zernel_helper_source_close(struct zernel_source *source)
{
	fput(source->file);
	mem_cgroup_put(source->memcg);
#ifdef CONFIG_BLK_CGROUP
	css_put(source->blkcg);
#endif
}

u64 zernel_helper_source_size(const struct zernel_source *source)
{
	struct inode *inode = file_inode(source->file);

	/* The inode of a block device is not that of its node. */
	if (S_ISBLK(inode->i_mode))
		inode = source->file->f_mapping->host;
	return i_size_read(inode);
}

/*
 * Returns the most that can be asked for at @offset: force_page_cache_ra() leaves out the pages
 * beyond that.
 */
u64 zernel_helper_source_most(const struct zernel_source *source, u64 offset)
{
	unsigned long pages = max_t(unsigned long, source->file->f_ra.ra_pages,
				    inode_to_bdi(source->file->f_mapping->host)->io_pages);

	/* A file system on top of another one may know neither. */
	if (!pages)
		pages = VM_READAHEAD_PAGES;
	return ((u64)pages << PAGE_SHIFT) - offset_in_page(offset);
}

/* By a thread of the kernel. May sleep for as long as the file system likes. */
int zernel_helper_source_read(const struct zernel_source *source, u64 offset, u64 length)
{
	struct mem_cgroup *before = set_active_memcg(source->memcg);
	int ret;

#ifdef CONFIG_BLK_CGROUP
	kthread_associate_blkcg(source->blkcg);
#endif
	ret = vfs_fadvise(source->file, offset, length, POSIX_FADV_WILLNEED);
#ifdef CONFIG_BLK_CGROUP
	kthread_associate_blkcg(NULL);
#endif
	set_active_memcg(before);
	cond_resched();
	return ret;
}

struct workqueue_struct *zernel_helper_detached_wq_create(void)
{
	return alloc_workqueue("zernel_detached", WQ_UNBOUND, WQ_MAX_ACTIVE);
}
