/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that was built for a recorded header: it reads, classes, follows, tracks, and begins
 * requests, with the structures that it knows. It needs no C library, so that it can be built for 32
 * bits, too.
 *
 * Its status is 0, or the number of the step that went wrong.
 */
#include <linux/zernel.h>

#define O_RDWR		2
#define EAGAIN		11
#define EFAULT		14
#define EINVAL		22
#define AT_FDCWD	(-100)
#define PROT_READ_WRITE	3
#define MAP_SHARED	1
#define PAGE_SIZE	4096

#ifdef __x86_64__
#define NR_READ		0
#define NR_IOCTL	16
#define NR_EXIT		60
#define NR_OPENAT	257
#define NR_FCNTL	72

static long sys(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}
#else
#define NR_READ		3
#define NR_IOCTL	54
#define NR_EXIT		1
#define NR_OPENAT	295
#define NR_FCNTL	55

static long sys(long number, long a, long b, long c, long d)
{
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d)
			 : "memory");
	return result;
}
#endif

static int fd;
static int step;

static void end(int status)
{
	sys(NR_EXIT, status, 0, 0, 0);
}

/* The next step: it ends the program if it fails. */
static void check(int is_right)
{
	step++;
	if (!is_right)
		end(step);
}

static long call(unsigned long number, void *structure)
{
	return sys(NR_IOCTL, fd, (long)number, (long)structure, 0);
}

/* Memory that the compiler does not clear by memset(), which is not there. */
static struct zernel_info info;
static struct zernel_list list;
static struct zernel_system_info counters;
static struct zernel_gpu_info gpus[2];
static struct zernel_class_set set;
static struct zernel_class_get get;
static struct zernel_events wanted;
static struct zernel_track track;
static struct zernel_histogram histogram;
static __u64 events[512];
#ifdef ZERNEL_CAP_FEATURES
static struct zernel_tsg_info tsgs[64];
static struct zernel_request_options options;
static struct zernel_request_begin begin;
static struct zernel_request_update update;
#endif

static __u64 address(void *p)
{
	return (__u64)(unsigned long)p;
}

#ifdef ZERNEL_CAP_FEATURES
/* The page of the first slots, or an errno. */
static long map_slots(void)
{
#ifdef __x86_64__
	register long flags __asm__("r10") = MAP_SHARED;
	register long file __asm__("r8") = fd;
	register long offset __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(9L), "D"(0L), "S"((long)PAGE_SIZE), "d"((long)PROT_READ_WRITE),
			   "r"(flags), "r"(file), "r"(offset)
			 : "rcx", "r11", "memory");
	return result;
#else
	/* The call that takes them in memory: six do not fit into registers beside the frame. */
	static long arguments[6];

	arguments[1] = PAGE_SIZE;
	arguments[2] = PROT_READ_WRITE;
	arguments[3] = MAP_SHARED;
	arguments[4] = fd;
	return sys(90, (long)arguments, 0, 0, 0);
#endif
}

/* A request with features, on a TSG that is there. */
static void features(void)
{
	check((unsigned long)map_slots() < (unsigned long)-4095L);
	check(info.caps & ZERNEL_CAP_FEATURES);
	list.kind = ZERNEL_LIST_TSGS;
	list.entries = address(tsgs);
	list.entry_size = sizeof(tsgs[0]);
	list.room = 64;
	check(call(ZERNEL_IOC_LIST, &list) == 0 && list.filled >= 1);

	begin.tsg = tsgs[0].id;
	begin.options = address(&options);
	/* It is not due before all steps are over, on any machine, so that no lease ends it. */
	begin.expected_ns = 9000000000ULL;
	options.size = sizeof(options);
	options.features = 2;
	options.feature[0] = -5;
	options.feature[1] = 1LL << 40;
	options.earliest_ns = 7;
	check(call(ZERNEL_IOC_REQUEST_BEGIN, &begin) == 0 && begin.request != 0);
	check(options.feature[1] == 1LL << 40 && options.earliest_ns == 7);
	update.request = begin.request;
	update.action = ZERNEL_REQUEST_CANCEL;
	/* A begin that is refused leaves that request. */
	options.features = 1;
	check(call(ZERNEL_IOC_REQUEST_BEGIN, &begin) == -EINVAL);
	options.features = ZERNEL_FEATURES_MAX + 1;
	check(call(ZERNEL_IOC_REQUEST_BEGIN, &begin) == -EINVAL);
	begin.options = 8;
	check(call(ZERNEL_IOC_REQUEST_BEGIN, &begin) == -EFAULT);
	check(call(ZERNEL_IOC_REQUEST_UPDATE, &update) == 0);
}
#endif

void _start(void);
void _start(void)
{
	fd = (int)sys(NR_OPENAT, AT_FDCWD, (long)"/dev/zernel", O_RDWR, 0);
	check(fd >= 0);

	check(call(ZERNEL_IOC_INFO, &info) == 0 && info.abi == 1);
	check(info.header >= 1 && info.list_max >= 64 && info.event_max <= 4096);

	list.kind = ZERNEL_LIST_SYSTEM;
	list.entries = address(&counters);
	list.entry_size = sizeof(counters);
	list.room = 1;
	check(call(ZERNEL_IOC_LIST, &list) == 0 && list.filled == 1 && list.next == 0);
	check(list.entry_known >= sizeof(counters) && counters.id == 1);

	/* The structure is used again: output is ignored. */
	list.kind = ZERNEL_LIST_GPUS;
	list.entries = address(gpus);
	list.entry_size = sizeof(gpus[0]);
	list.room = 2;
	check(call(ZERNEL_IOC_LIST, &list) == 0 && list.filled == counters.gpus);
	check(list.filled < 2 || gpus[0].id < gpus[1].id);

	histogram.target.kind = ZERNEL_TARGET_GPU;
	histogram.target.id = gpus[0].id;
	histogram.kind = ZERNEL_HISTOGRAM_SWITCH;
	check(call(ZERNEL_IOC_HISTOGRAM, &histogram) == 0 && histogram.unit_ns > 0);

	wanted.kinds = 1ULL << ZERNEL_EVENT_GPU_ADDED | 1ULL << ZERNEL_EVENT_TSG_CLASS;
	wanted.capacity = 16;
	check(call(ZERNEL_IOC_EVENTS, &wanted) == 0);
	/* F_SETFL, O_NONBLOCK */
	check(sys(NR_FCNTL, fd, 4, 04000, 0) == 0);
	check(sys(NR_READ, fd, (long)events, sizeof(events), 0) == -EAGAIN);

	set.target.kind = ZERNEL_TARGET_PROCESS;
	set.target.flags = ZERNEL_TARGET_SELF;
	set.set = ZERNEL_CLASS_LEVEL;
	set.level = ZERNEL_LEVEL_BE;
	check(call(ZERNEL_IOC_CLASS_SET, &set) == 0);
	get.target = set.target;
	check(call(ZERNEL_IOC_CLASS_GET, &get) == 0);
	check(get.own == ZERNEL_CLASS_LEVEL && get.own_level == ZERNEL_LEVEL_BE);
	check(get.level.value == ZERNEL_LEVEL_BE && get.level.assignment == get.assignment);
	/* Attributes that this program does not know end, too. */
	set.set = 0;
	set.level = 0;
	set.clear = ~0U;
	check(call(ZERNEL_IOC_CLASS_SET, &set) == 0);
	check(call(ZERNEL_IOC_CLASS_GET, &get) == 0 && get.own == 0);

	track.target = get.target;
	track.set = ZERNEL_TRACK_THREADS;
	check(call(ZERNEL_IOC_TRACK, &track) == 0 && track.threads == 1);
	track.set = 0;
	track.clear = ZERNEL_TRACK_THREADS;
	check(call(ZERNEL_IOC_TRACK, &track) == 0);

#ifdef ZERNEL_CAP_FEATURES
	features();
#endif
	end(0);
	for (;;)
		;
}
