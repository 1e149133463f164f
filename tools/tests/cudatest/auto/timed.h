/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A server whose latency is measured, and a job that keeps the GPU busy beside it. */
#ifndef ZERNEL_TEST_TIMED_H
#define ZERNEL_TEST_TIMED_H

/* Time between two requests of the server. */
#define PERIOD_NS 5000000LL
/* Time of a kernel of the job. */
#define KERNEL_NS 400000ULL

/* Copies so many bytes, launches and waits, so often. */
static void latency(int count, int bytes)
{
	struct timespec next;
	long long sum = 0, longest = 0;
	struct server own = { 0 };
	void *host = NULL;
	address memory = 0;

	set_up(&own);
	if (bytes) {
		CHECK(cuda.alloc(&memory, bytes));
		CHECK(cuda.alloc_host(&host, bytes, 0));
	}
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (int number = 0; number < count; number++) {
		long long begin, time;

		next.tv_nsec += PERIOD_NS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		begin = now();
		if (bytes)
			CHECK(cuda.in(memory, host, bytes));
		launch(&own, own.stream, 0);
		CHECK(cuda.stream_wait(own.stream));
		time = now() - begin;
		sum += time;
		if (time > longest)
			longest = time;
	}
	printf("mean %lld longest %lld\n", sum / count, longest);
	if (bytes) {
		CHECK(cuda.free_host(host));
		CHECK(cuda.free(memory));
	}
	tear_down(&own);
}

/* Has kernels on the GPU until it is killed. */
static void busy(void)
{
	unsigned long long ns = KERNEL_NS;
	void *arguments[] = { &ns };
	struct server own = { 0 };
	handle events[2];

	set_up(&own);
	for (int at = 0; at < 2; at++)
		CHECK(cuda.event_create(&events[at], 2));
	printf("busy\n");
	for (int at = 0;; at = !at) {
		CHECK(cuda.event_wait(events[at]));
		CHECK(cuda.launch(own.spin, 64, 1, 1, 256, 1, 1, 0, own.stream, arguments, NULL));
		CHECK(cuda.event_record(events[at], own.stream));
	}
}

#endif
