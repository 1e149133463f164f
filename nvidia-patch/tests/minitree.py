# SPDX-License-Identifier: GPL-2.0
"""Source trees of a driver that does not exist: the least that the hooks can go into.

Written for the tests. Names are those that the semantic patches look for; everything else is
made up.
"""

from pathlib import Path

NV_C = """\
#include "nv-hypervisor.h"

MODULE_LICENSE("Dual MIT/GPL");

static int other_things(int a)
{
    return a;
}

int
nvidia_ioctl(
    struct file *file,
    unsigned int cmd
)
{
    int status;

    switch (cmd)
    {
        case 1:
            status = other_things(1);
            break;
        default:
            status = rm_ioctl(sp, nv, &nvlfp->nvfp, cmd, data, size);
            break;
    }
    return status;
}

static void nvidia_close_callback(nv_linux_file_private_t *nvlfp)
{
    rm_cleanup_file_private(sp, nv, &nvlfp->nvfp);
}

static int
nvidia_ctl_close(struct inode *inode, struct file *file)
{
    /* rm_cleanup_file_private(in, a, comment) */
    rm_cleanup_file_private(sp, nv, &nvlfp->nvfp);
    return 0;
}

static int nv_start_device(nv_state_t *nv, nvidia_stack_t *sp)
{
    int rc;

    if (other_things(2))
        goto failed;
    rc = os_alloc_mutex(&nvl->isr_bh_unlocked_mutex);
    if (rc != 0)
        goto failed;
    rc = nv_kthread_q_init(&nvl->bottom_half_q, nv_device_name);
    if (rc != 0)
        goto failed;
    rc = nv_kthread_q_init(&nvl->queue.nvk, "nv_queue");
    if (rc)
        goto failed;
    if (other_things(3))
    {
        rc = nv_kthread_q_init(&nvl->remove_numa_memory_q,
                               "nv_remove_numa_memory");
        if (rc)
            goto failed;
    }
    rm_unref_dynamic_power(sp, nv, NV_DYNAMIC_PM_FINE);
    return 0;
failed:
    return -1;
}

static void nv_stop_device(nv_state_t *nv, nvidia_stack_t *sp)
{
    rm_ref_dynamic_power(sp, nv, NV_DYNAMIC_PM_FINE);
    other_things(3);
}

NV_STATUS
nv_set_system_power_state(int power_state)
{
    int status = 0;

    if (power_state == 0)
    {
        up_write(&nv_system_pm_lock);
    }
    else
    {
        down_write(&nv_system_pm_lock);
        status = other_things(4);
        if (status)
        {
            up_write(&nv_system_pm_lock);
        }
    }
    return status;
}

int nv_pmops_suspend(struct device *dev)
{
    NV_STATUS status = nvidia_suspend(dev, NV_PM_ACTION_STANDBY, NV_FALSE);

    if (status != NV_OK)
        nvidia_resume(dev, NV_PM_ACTION_RESUME);
    return status;
}

int nv_pmops_freeze(struct device *dev)
{
    return nvidia_suspend(dev, NV_PM_ACTION_HIBERNATE, NV_FALSE);
}

int nv_pmops_resume(struct device *dev)
{
    return nvidia_resume(dev, NV_PM_ACTION_RESUME);
}
"""

REMOVE_OLD = """\
static void
nv_pci_remove(struct pci_dev *pci_dev)
{
    LOCK_NV_LINUX_DEVICES();
    down(&nvl->ldata_lock);
    nv_linux_remove_device_locked(nvl);
    UNLOCK_NV_LINUX_DEVICES();
}
"""

REMOVE_NEW = """\
static void nv_pci_remove_helper(struct pci_dev *pci_dev, bool block_if_gpu_in_use)
{
    LOCK_NV_LINUX_DEVICES();
    down(&nvl->ldata_lock);
    if (!block_if_gpu_in_use && busy(nvl))
    {
        up(&nvl->ldata_lock);
        UNLOCK_NV_LINUX_DEVICES();
        return;
    }
    if (no_memory())
    {
        up(&nvl->ldata_lock);
        UNLOCK_NV_LINUX_DEVICES();
        return;
    }
    nv_linux_remove_device_locked(nvl);
    UNLOCK_NV_LINUX_DEVICES();
}
"""

NV_PCI_C = """\
#include "nv-hypervisor.h"

static int nv_resize_pcie_bars(struct pci_dev *pci_dev)
{
    return pci_resize_resource(pci_dev, 1, 2);
}

static int
nv_pci_probe
(
    struct pci_dev *pci_dev
)
{
    LOCK_NV_LINUX_DEVICES();
    if (nv_linux_add_device_locked(nvl) != 0)
    {
        UNLOCK_NV_LINUX_DEVICES();
        goto failed;
    }
    UNLOCK_NV_LINUX_DEVICES();
    if (step())
        goto undo;
    return 0;
undo:
    LOCK_NV_LINUX_DEVICES();
    nv_linux_remove_device_locked(nvl);
    UNLOCK_NV_LINUX_DEVICES();
failed:
    return -1;
}

"""

NV_TIME_H = """\
#include <linux/ktime.h>

static inline int nv_sleep_us(unsigned int us)
{
    return in_irq() && us > 1;
}

static inline int nv_sleep_ms(unsigned int ms)
{
    return in_irq() && ms > 1;
}
"""

OTHERS = {
    "common/inc/nv.h": "/* nothing */\n",
    "common/inc/nv-mm.h": "#if A\n#define NV_CAN_CALL_VMA_START_WRITE 0\n#else\n"
                          "#define NV_CAN_CALL_VMA_START_WRITE 1\n#endif\n",
    "nvidia/os-interface.c": "int os_is_isr(void)\n{\n    return (in_irq());\n}\n\n"
                             "void os_get_current_process_name(char *buf, int len)\n{\n"
                             "    strncpy(buf, current->comm, len - 1);\n}\n",
    "nvidia/linux_nvswitch.c": "int\nnvswitch_os_read_registry_dword\n(\n    char *key\n)\n{\n"
                               "    strncpy(value, key, 8);\n    return 0;\n}\n\n"
                               "char *nvswitch_os_strncpy(char *d, const char *s, size_t n)\n{\n"
                               "    return strncpy(d, s, n);\n}\n",
    "nvidia/nv-dma.c": "static int nv_dma_use_map_resource(void)\n{\n"
                       "    return (ops->map_resource != NULL);\n}\n",
    "nvidia-uvm/uvm_pmm_gpu.c": "static int init_chunk_split_cache_level(int level)\n{\n"
                                "    strncpy(name[level], \"chunk\", 4);\n    return 0;\n}\n",
    "nvidia/nvidia-sources.Kbuild": "NVIDIA_SOURCES ?=\nNVIDIA_SOURCES += nvidia/nv.c\n"
                                    "NVIDIA_SOURCES += nvidia/nv-pci.c\n",
}


def files(version: str = "550.163.01") -> dict[str, str]:
    """The files of a tree of that version."""
    new = not version.startswith("550")
    found = dict(OTHERS)
    found["Kbuild"] = f'ccflags-y += -DNV_VERSION_STRING=\\"{version}\\"\n'
    found["nvidia/nv.c"] = NV_C
    found["nvidia/nv-pci.c"] = NV_PCI_C + (REMOVE_NEW if new else REMOVE_OLD)
    found["common/inc/nv-time.h"] = NV_TIME_H
    if version.startswith("595"):
        found["common/inc/nv-linux.h"] = "#include <linux/gpio.h>\n#include <linux/of_gpio.h>\n"
    return found


def write(root: Path, contents: dict[str, str]) -> None:
    """Writes the files below a folder."""
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mode of every file below a folder."""
    return {str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode)
            for path in sorted(root.rglob("*")) if path.is_file()}
