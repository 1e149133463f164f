// SPDX-License-Identifier: GPL-2.0 OR MIT
// The driver looks for functions that change the flags of a mapping by a member of struct
// vm_area_struct that newer kernels name otherwise.
//
// Versions: 550.163.01
// Expect: common/inc/nv-mm.h nv_vm_flags_set 1 vma->vm_flags |= flags => nv_zernel_vm_flags_set(vma, flags)
// Expect: common/inc/nv-mm.h nv_vm_flags_clear 1 vma->vm_flags &= ~flags => nv_zernel_vm_flags_clear(vma, flags)
// Anchor: #include "conftest.h"
// Expect: common/inc/nv-mm.h - 1 + #include "nv-zernel-compat.h"

@vm_flags_include@
@@
  #include "conftest.h"
+ #include "nv-zernel-compat.h"

@vm_flags_set@
expression vma, flags;
@@
- vma->vm_flags |= flags
+ nv_zernel_vm_flags_set(vma, flags)

@vm_flags_clear@
expression vma, flags;
@@
- vma->vm_flags &= ~flags
+ nv_zernel_vm_flags_clear(vma, flags)
