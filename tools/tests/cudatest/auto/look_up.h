/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names that are looked up in all ways. */
#ifndef ZERNEL_TEST_LOOK_UP_H
#define ZERNEL_TEST_LOOK_UP_H

#ifndef LINKED
/* Names that are looked up in other ways give what they give without the library. */
static void look_up(void)
{
	void *next = dlsym(RTLD_NEXT, "getpid"), *usual = dlsym(RTLD_DEFAULT, "getpid"), *all;

	if (!next || next != usual)
		fail("getpid", 0);
	if (dlsym(RTLD_DEFAULT, "cuLaunchKernel") || !dlerror())
		fail("a function of CUDA without CUDA", 0);
	if (dlsym(RTLD_NEXT, "cuLaunchKernel") || dlsym(RTLD_DEFAULT, "cuInit"))
		fail("a function of CUDA without CUDA", 1);
	all = dlopen(NULL, RTLD_NOW);
	if (!all || dlsym(all, "cuLaunchKernel"))
		fail("a function of CUDA without CUDA", 2);
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!library || !dlsym(RTLD_DEFAULT, "cuLaunchKernel") || !dlsym(all, "cuLaunchKernel"))
		fail("a function of CUDA", 0);
	if (dlsym(RTLD_DEFAULT, "cuLaunchKernel") != dlsym(library, "cuLaunchKernel"))
		fail("a function of CUDA", 1);
	if (dlsym(library, "cuNothing") || !strstr(dlerror(), "cuNothing"))
		fail("no function of CUDA", 0);
	dlclose(all);
	printf("looked up\n");
}

/* Names of each form, in each way, before there is CUDA, with it for this program alone, and with it
 * for all: the ways that find them, and those that find the driver's own function. */
static void look_up_all(void)
{
	static const char *const names[] = {
		"cuMemcpy", "cuMemcpyHtoD_v2", "cuLaunchKernel", "cuLaunchKernel_ptsz",
		"cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4", "cuCtxSynchronize_v2",
		"cuCtxDetach", "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset",
		"cuLibraryUnload", "cuModuleLoadFatBinary", "cuMemFree_v2", "cuMemcpyHtoA_v2",
		"cuMemcpy3D_v2_ptds", "cuGetProcAddress", "cuGetProcAddress_v2", "cuInit",
	};
	void *all = dlopen(NULL, RTLD_NOW);

	for (int step = 0; step < 3; step++) {
		if (step)
			library = dlopen("libcuda.so.1", RTLD_NOW | (step > 1 ? RTLD_GLOBAL : RTLD_LOCAL));
		for (unsigned int at = 0; at < sizeof(names) / sizeof(*names); at++) {
			void *const of_handle = step ? dlsym(library, names[at]) : NULL;
			void *const found[] = { dlsym(RTLD_DEFAULT, names[at]),
						dlsym(RTLD_NEXT, names[at]), dlsym(all, names[at]) };

			printf("%d %s %d %d %d %d\n", step, names[at], !!of_handle, !!found[0],
			       !!found[1], !!found[2]);
			for (int way = 0; way < 3; way++)
				if (found[way] && found[way] != of_handle)
					printf("%d %s differs in way %d\n", step, names[at], way);
		}
	}
}
#endif

#endif
