// SPDX-License-Identifier: GPL-2.0 OR MIT
// Linux 7.2 has no strncpy().
//
// Versions: 550.163.01 595.45.04
// Expect: nvidia/os-interface.c os_get_current_process_name 1 strncpy( => nv_zernel_strncpy(
// Expect: nvidia/linux_nvswitch.c nvswitch_os_read_registry_dword 1 strncpy( => nv_zernel_strncpy(
// Expect: nvidia/linux_nvswitch.c nvswitch_os_strncpy 1 strncpy( => nv_zernel_strncpy(
// Expect: nvidia-uvm/uvm_pmm_gpu.c init_chunk_split_cache_level 1 strncpy( => nv_zernel_strncpy(
// Expect: nvidia-modeset/nvidia-modeset-linux.c nvkms_strncpy 1 strncpy( => nv_zernel_strncpy(

@strncpy@
expression dest, src, count;
@@
- strncpy
+ nv_zernel_strncpy
  (dest, src, count)
