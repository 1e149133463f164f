/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Functions that newer kernels took away or changed, for the interface layer of drivers that were
 * published before them. Right for older kernels too, so that a patched tree still builds for every
 * kernel that the driver itself supports.
 */
#ifndef NV_ZERNEL_COMPAT_H
#define NV_ZERNEL_COMPAT_H

#include <linux/preempt.h>
#include <linux/types.h>
#include <linux/version.h>

struct pci_dev;

/* Older kernels have it under the name in_irq() only. */
#ifdef in_hardirq
#define nv_zernel_in_hardirq()	in_hardirq()
#else
#define nv_zernel_in_hardirq()	in_irq()
#endif

/*
 * The C library's strncpy(), to the letter: pads with zeros, and leaves the end
 * open when @src has @count characters or more. Its callers count on both.
 */
static inline char *nv_zernel_strncpy(char *dest, const char *src, size_t count)
{
	size_t i;

	for (i = 0; i < count && src[i] != '\0'; i++)
		dest[i] = src[i];
	for (; i < count; i++)
		dest[i] = '\0';
	return dest;
}

/*
 * A fourth parameter names BARs that must stay where they are. Told by the type,
 * because distributions take changes back to older kernels.
 */
typedef int (*nv_zernel_resize_3)(struct pci_dev *dev, int bar, int size);
typedef int (*nv_zernel_resize_4)(struct pci_dev *dev, int bar, int size, int exclude);

static inline int nv_zernel_call_resize_3(void *resize, struct pci_dev *dev, int bar, int size)
{
	return ((nv_zernel_resize_3)resize)(dev, bar, size);
}

static inline int nv_zernel_call_resize_4(void *resize, struct pci_dev *dev, int bar, int size)
{
	return ((nv_zernel_resize_4)resize)(dev, bar, size, 0);
}

#define nv_zernel_pci_resize_resource(dev, bar, size)			\
	_Generic(&pci_resize_resource,					\
		 nv_zernel_resize_4: nv_zernel_call_resize_4,		\
		 nv_zernel_resize_3: nv_zernel_call_resize_3)		\
		(pci_resize_resource, dev, bar, size)

/*
 * Flags of a mapping change through functions since 6.3, which the driver tells by
 * a member of the structure that newer kernels name otherwise.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define nv_zernel_vm_flags_set(vma, flags)	vm_flags_set(vma, flags)
#define nv_zernel_vm_flags_clear(vma, flags)	vm_flags_clear(vma, flags)
#else
#define nv_zernel_vm_flags_set(vma, flags)	((vma)->vm_flags |= (flags))
#define nv_zernel_vm_flags_clear(vma, flags)	((vma)->vm_flags &= ~(flags))
#endif

/* True if DMA operations can map resources other than memory. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
#define nv_zernel_maps_resources(ops)	((ops)->map_phys != NULL)
#else
#define nv_zernel_maps_resources(ops)	((ops)->map_resource != NULL)
#endif

/* Keeps a device awake that is: it may be asked whether it is used, too, before 6.9. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
#define nv_zernel_get_if_active(dev)	pm_runtime_get_if_active(dev)
#else
#define nv_zernel_get_if_active(dev)	pm_runtime_get_if_active(dev, true)
#endif

/*
 * Gives the interrupt of a GPU back if @rc says that the GPU cannot be started. A macro, because the
 * types come later. Returns @rc.
 */
#define nv_zernel_release_irq_on(rc, nv, nvl)				\
({									\
	if ((rc) != 0 && !((nv)->flags & NV_FLAG_SOC_DISPLAY)) {	\
		if ((nv)->flags & NV_FLAG_USES_MSIX)			\
			nv_free_msix_irq(nvl);				\
		else							\
			free_irq((nv)->interrupt_line, (nvl));		\
	}								\
	(rc);								\
})

/*
 * A header for GPIO numbers, which kernels without them do not have. Only the display of a Tegra has
 * GPIOs, and does without them there.
 */
#if defined(__has_include)
#if __has_include(<linux/of_gpio.h>)
#define NV_ZERNEL_GPIO_NUMBERS
#endif
#else
#define NV_ZERNEL_GPIO_NUMBERS
#endif

#ifdef NV_ZERNEL_GPIO_NUMBERS
#include <linux/of_gpio.h>
#define nv_zernel_of_get_named_gpio(node, name, index)	of_get_named_gpio(node, name, index)
#else
#include <linux/errno.h>
#define nv_zernel_of_get_named_gpio(node, name, index)	(-ENOENT)
#endif

#endif /* NV_ZERNEL_COMPAT_H */
