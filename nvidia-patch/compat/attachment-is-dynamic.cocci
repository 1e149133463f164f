// SPDX-License-Identifier: GPL-2.0 OR MIT
// Linux 7.3 keeps dma_buf_attachment_is_dynamic() to itself. The driver's test for it passes all the
// same, since it is compiled with implicit declarations allowed.
//
// Versions: 550.163.01
// Expect: nvidia/nv-dmabuf.c nv_dma_buf_map 1 dma_buf_attachment_is_dynamic(attachment) => attachment->importer_ops != NULL

@attachment_is_dynamic@
expression attachment;
@@
- dma_buf_attachment_is_dynamic(attachment)
+ attachment->importer_ops != NULL
