/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Random calls whose results are printed, and the costs of calls. */
#ifndef ZERNEL_TEST_RANDOM_H
#define ZERNEL_TEST_RANDOM_H

#include <link.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

static unsigned long long seed;

/* xorshift64*: a number below a limit. */
static unsigned int below(unsigned int limit)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (unsigned int)((seed * 2685821657736338717ULL) >> 33) % limit;
}

/* FNV-1a of all results. */
static unsigned long long digest;

static void note(const void *bytes, size_t length)
{
	for (size_t at = 0; at < length; at++)
		digest = (digest ^ ((const unsigned char *)bytes)[at]) * 0x100000001b3ULL;
}

static void got(int status)
{
	/* Work that is over, or is not yet. */
	if (status == 600)
		status = 0;
	note(&status, sizeof(status));
}

/* A call, in a stream, on memory of the device and the host. */
static void call(struct server *own, handle stream, unsigned int *pageable)
{
	const unsigned int at = below(WORDS - 64), length = 4 * below(64);
	const address there = own->x + 4 * at;
	unsigned int n = WORDS, rounds = 2, start = below(1000);
	float half = 0.5f;
	void *mac[] = { &own->y, &n, &start, &rounds };
	void *saxpy[] = { &n, &half, &own->x, &own->y };
	struct launch config = { { 4, 1, 1 }, { 256, 1, 1 }, 0, stream, NULL, 0 };
	handle graph, current = NULL;
	struct rows rows;
	address memory;

	switch (below(26)) {
	case 0:
		got(cuda.in(there, pageable + at, length));
		break;
	case 1:
		got(cuda.in_later(there, own->host + at, length, stream));
		break;
	case 2:
		got(cuda.in_later(there, pageable + at, length, stream));
		break;
	case 3:
		got(cuda.out(pageable + at, there, length));
		break;
	case 4:
		got(cuda.out_later(pageable + at, there, length, stream));
		break;
	case 5:
		got(cuda.any((address)(pageable + at), there, length));
		break;
	case 6:
		got(cuda.any_later(there, (address)(own->host + at), length, stream));
		break;
	case 7:
		got(cuda.within_later(own->y + 4 * at, there, length, stream));
		break;
	case 8:
		set_rows(&rows, own);
		got(cuda.rows(&rows));
		break;
	case 9:
		set_rows(&rows, own);
		got(cuda.rows_later(&rows, stream));
		break;
	case 10:
		got(cuda.set_later(there, start, length / 4, stream));
		break;
	case 11:
	case 12:
		got(cuda.launch(own->mac, 4, 1, 1, 256, 1, 1, 0, stream, mac, NULL));
		break;
	case 13:
	case 14:
		got(cuda.launch_ex(&config, own->saxpy, saxpy, NULL));
		break;
	case 15:
		got(cuda.launch_together(own->mac, 4, 1, 1, 256, 1, 1, 0, stream, mac));
		break;
	case 16:
		got(cuda.stream_wait(stream));
		break;
	case 17:
		got(cuda.stream_query(stream));
		break;
	case 18:
		got(cuda.event_record(own->event, stream));
		break;
	case 19:
		got(below(2) ? cuda.event_wait(own->event) : cuda.event_query(own->event));
		break;
	case 20:
		got(cuda.context_wait());
		break;
	case 21:
		got(cuda.alloc(&memory, 4096));
		got(cuda.in(memory, pageable, length));
		got(cuda.free(memory));
		got(cuda.in(memory, pageable, 4));
		break;
	case 22:
		/* Calls that fail. */
		got(cuda.in(1, pageable, 4));
		got(cuda.in_later(there, NULL, 4, stream));
		got(cuda.launch(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
		got(cuda.launch(own->mac, 0, 1, 1, 1, 1, 1, 0, stream, mac, NULL));
		got(cuda.rows(NULL));
		got(cuda.launch_ex(NULL, own->mac, mac, NULL));
		got(cuda.free(12));
		break;
	case 23:
		/* The current context stays what it was. */
		got(cuda.context_current(&current));
		got(current == context);
		got(cuda.context_set(NULL));
		got(cuda.in(there, pageable + at, length));
		got(cuda.launch(own->mac, 4, 1, 1, 256, 1, 1, 0, stream, mac, NULL));
		got(cuda.context_wait());
		got(cuda.context_set(context));
		break;
	case 24:
		got(cuda.capture_begin(own->stream, 0));
		got(cuda.in_later(there, own->host + at, length, own->stream));
		got(cuda.launch(own->mac, 4, 1, 1, 256, 1, 1, 0, own->stream, mac, NULL));
		got(cuda.stream_wait(own->stream));
		got(cuda.capture_end(own->stream, &graph));
		break;
	case 25:
		got(cuda.capture_begin(own->stream, 0));
		got(cuda.in_later(there, own->host + at, length, own->stream));
		got(cuda.launch(own->saxpy, 4, 1, 1, 256, 1, 1, 0, own->stream, saxpy, NULL));
		got(cuda.capture_end(own->stream, &graph));
		got(cuda.instantiate(&own->exec, graph, 0));
		got(cuda.graph_launch(own->exec, stream));
		got(cuda.stream_wait(stream));
		got(cuda.exec_destroy(own->exec));
		got(cuda.graph_destroy(graph));
		own->exec = NULL;
		break;
	}
}

/* So many sequences; a line with the digest of the results of each. */
static void random_calls(int count, int first)
{
	static unsigned int pageable[WORDS], result[WORDS];
	struct server own = { 0 };
	handle other;

	set_up(&own);
	CHECK(cuda.stream_create(&other, 0));
	seed = 88172645463325252ULL + (unsigned int)first;
	for (int sequence = 0; sequence < count; sequence++) {
		const handle streams[] = { NULL, own.stream, other };
		const handle stream = streams[below(3)];
		const unsigned int length = 4 + below(12);

		digest = 0xcbf29ce484222325ULL;
		for (int at = 0; at < WORDS; at++)
			own.host[at] = pageable[at] = below(1 << 16);
		got(cuda.in(own.x, own.host, 4 * WORDS));
		got(cuda.in(own.y, pageable, 4 * WORDS));
		for (unsigned int at = 0; at < length; at++)
			call(&own, stream, pageable);
		got(cuda.context_wait());
		note(pageable, sizeof(pageable));
		got(cuda.out(result, own.x, sizeof(result)));
		note(result, sizeof(result));
		got(cuda.out(result, own.y, sizeof(result)));
		note(result, sizeof(result));
		printf("%d %016llx\n", sequence, digest);
	}
	CHECK(cuda.stream_destroy(other));
	tear_down(&own);
}

/* The code of the library, if it is preloaded, and the allocations that it makes. */
static char *code, *code_end;
static long allocations;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static void count_allocation(char *caller)
{
	if (caller >= code && caller < code_end)
		__atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t size)
{
	count_allocation(__builtin_return_address(0));
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	count_allocation(__builtin_return_address(0));
	return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	count_allocation(__builtin_return_address(0));
	return __libc_realloc(memory, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	count_allocation(__builtin_return_address(0));
	*memory = __libc_memalign(alignment, size);
	return *memory ? 0 : ENOMEM;
}

static int find_code(struct dl_phdr_info *file, size_t size, void *data)
{
	(void)size;
	(void)data;
	if (!strstr(file->dlpi_name, "libzernel-auto.so"))
		return 0;
	for (int at = 0; at < file->dlpi_phnum; at++) {
		const ElfW(Phdr) *part = &file->dlpi_phdr[at];

		if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
			code = (char *)file->dlpi_addr + part->p_vaddr;
			code_end = code + part->p_memsz;
		}
	}
	return 1;
}

/* Instructions of this thread in user space, or -1. */
static int open_counter(void)
{
	struct perf_event_attr counter = { 0 };

	counter.type = PERF_TYPE_HARDWARE;
	counter.size = sizeof(counter);
	counter.config = PERF_COUNT_HW_INSTRUCTIONS;
	counter.exclude_kernel = 1;
	counter.exclude_hv = 1;
	return (int)syscall(SYS_perf_event_open, &counter, 0, -1, -1, 0);
}

static long long instructions(int counter)
{
	long long value = 0;

	if (counter < 0 || read(counter, &value, sizeof(value)) != sizeof(value))
		return 0;
	return value;
}

/* Nanoseconds and instructions of a call, the least of several times many. */
#define COST(what, call) \
	do { \
		long long least = 1LL << 60, code_ = 1LL << 60; \
		for (int round = 0; round < 50; round++) { \
			const long long before = instructions(counter), start = now(); \
			for (int at = 0; at < 2000; at++) \
				call; \
			const long long end = now(), after = instructions(counter); \
			if (end - start < least) \
				least = end - start; \
			if (after - before < code_) \
				code_ = after - before; \
		} \
		printf("cost %s %lld %lld\n", what, least / 2000, code_ / 2000); \
	} while (0)

/* On a machine without a device, the way to the driver alone: its calls fail at once. */
static void bare(void)
{
	const int counter = open_counter();
	static char host[64];
	handle current;

	COST("launch", cuda.launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	COST("copy", cuda.in_later(1, host, 4, NULL));
	COST("query", cuda.event_query(NULL));
	COST("wait", cuda.stream_wait(NULL));
	COST("free", cuda.free(0));
	COST("unseen", cuda.context_current(&current));
}

static void bench(int count)
{
	const int counter = open_counter();
	struct server own = { 0 };
	handle current;
	long before;

	dl_iterate_phdr(find_code, NULL);
	set_up(&own);
	serve(&own, 1, 1);
	/* Calls that the driver refuses at once are the cheapest, with the same way to it. */
	COST("launch", cuda.launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	COST("copy", cuda.in_later(1, own.host, 4, NULL));
	COST("query", cuda.event_query(NULL));
	COST("unseen", cuda.context_current(&current));
	/* The same with a request under way. */
	CHECK(cuda.in_later(own.x, own.host, 4 * WORDS, own.stream));
	launch(&own, own.stream, 0);
	COST("launch-again", cuda.launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	COST("query-again", cuda.event_query(NULL));
	CHECK(cuda.stream_wait(own.stream));
	/* Requests. */
	for (int number = 0; number < 200; number++)
		serve(&own, number % 4, number);
	before = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
	for (int number = 0; number < count; number++)
		serve(&own, number % 4, number);
	/* 10,000 calls without the results. */
	for (int number = 0; number < 2500; number++) {
		CHECK(cuda.in_later(own.x, own.host, 4 * WORDS, own.stream));
		launch(&own, own.stream, number % 3);
		CHECK(cuda.event_record(own.event, own.stream));
		CHECK(number % 2 ? cuda.event_wait(own.event) : cuda.stream_wait(own.stream));
	}
	printf("allocations %ld of %d\n", __atomic_load_n(&allocations, __ATOMIC_RELAXED) - before,
	       code ? count : -1);
	tear_down(&own);
}

#endif
