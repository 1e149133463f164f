// SPDX-License-Identifier: GPL-2.0 OR MIT
// One operation maps memory and other resources.
//
// Versions: 550.163.01
// Expect: nvidia/nv-dma.c nv_dma_use_map_resource 1 ops->map_resource != NULL => nv_zernel_maps_resources(ops)

@map_resource@
expression ops;
@@
- ops->map_resource != NULL
+ nv_zernel_maps_resources(ops)
