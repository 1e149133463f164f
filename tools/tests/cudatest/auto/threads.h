/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads whose requests and calls meet. */
#ifndef ZERNEL_TEST_THREADS_H
#define ZERNEL_TEST_THREADS_H

#include <fcntl.h>

/* Both threads are at the same place. */
static void meet(void)
{
	pthread_barrier_wait(&barrier);
}

static void start(pthread_t *other, void *(*run)(void *), int count)
{
	many = count;
	CHECK(pthread_barrier_init(&barrier, NULL, 2));
	CHECK(pthread_create(other, NULL, run, NULL));
}

#ifndef LINKED
/* A kernel of a library is launched first while another thread has a request without work. */
static void *hold_thread(void *argument)
{
	(void)argument;
	CHECK(cuda.context_set(context));
	for (int number = 0; number < many; number++) {
		CHECK(cuda.in(shared.x, shared.host, 4 * WORDS));
		meet();
		meet();
		launch(&shared, shared.stream, 0);
		CHECK(cuda.stream_wait(shared.stream));
	}
	return NULL;
}

static void late(int count)
{
	/* Of CUDA 12: not in the table, which programs of CUDA 11 have, too. */
	result (*const load)(handle *, const void *, void *, void *, unsigned int, void *, void *,
			     unsigned int) =
		(result(*)(handle *, const void *, void *, void *, unsigned int, void *, void *,
			   unsigned int))by_symbol("cuLibraryLoadData");
	result (*const kernel_of)(handle *, handle, const char *) =
		(result(*)(handle *, handle, const char *))by_symbol("cuLibraryGetKernel");
	result (*const function_of)(handle *, handle) =
		(result(*)(handle *, handle))by_symbol("cuKernelGetFunction");
	handle library_, kernel, function;
	long long longest = 0, begin;
	pthread_t other;

	set_up(&shared);
	start(&other, hold_thread, count);
	for (int number = 0; number < count; number++) {
		unsigned int n = WORDS, seed_ = 1, rounds = 1;
		void *arguments[] = { &shared.y, &n, &seed_, &rounds };

		CHECK(load(&library_, kernels, NULL, NULL, 0, NULL, NULL, 0));
		CHECK(kernel_of(&kernel, library_, "zernel_mac"));
		CHECK(function_of(&function, kernel));
		meet();
		begin = now();
		CHECK(cuda.launch(function, 4, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
		if (now() - begin > longest)
			longest = now() - begin;
		CHECK(cuda.stream_wait(NULL));
		meet();
	}
	CHECK(pthread_join(other, NULL));
	/* The libraries end with the process. */
	printf("longest %lld us\n", longest / 1000);
	tear_down(&shared);
}
#endif

/* A thread waits for its default stream, while another one has work in a default stream. */
static void *idle_thread(void *argument)
{
	(void)argument;
	CHECK(cuda.context_set(context));
	for (int number = 0; number < many; number++) {
		meet();
		CHECK(cuda.stream_wait(NULL));
		meet();
	}
	return NULL;
}

static void defaults(int count)
{
	pthread_t other;

	set_up(&shared);
	start(&other, idle_thread, count);
	for (int number = 0; number < count; number++) {
		CHECK(cuda.in(shared.x, shared.host, 4 * WORDS));
		prepare();
		launch(&shared, NULL, 0);
		meet();
		meet();
		/* Of the same request, unless the other thread has ended it. */
		CHECK(cuda.in_later(shared.x, shared.host, 4 * WORDS, NULL));
		launch(&shared, NULL, 0);
		CHECK(cuda.stream_wait(NULL));
	}
	CHECK(pthread_join(other, NULL));
	tear_down(&shared);
}

/* Threads begin requests and leave them. */
static void *leave_thread(void *argument)
{
	(void)argument;
	CHECK(cuda.context_set(context));
	CHECK(cuda.in(shared.x, shared.host, 4 * WORDS));
	meet();
	/* The process ends before it. */
	pause();
	return NULL;
}

static void lanes(int count)
{
	pthread_t other;

	set_up(&shared);
	for (int at = 0; at < 4; at++) {
		start(&other, leave_thread, 0);
		meet();
	}
	prepare();
	for (int number = 0; number < count; number++)
		serve(&shared, 1, number);
}

/* Two threads make contexts at once. */
static void *make_thread(void *argument)
{
	handle own;

	(void)argument;
	meet();
	CHECK(cuda.context_create(&own, 0, 0));
	serve_all(many, 1);
	meet();
	CHECK(cuda.context_destroy(own));
	return NULL;
}

static void makers(int rounds, int each)
{
	pthread_t other;

	CHECK(cuda.context_destroy(context));
	for (int round = 0; round < rounds; round++) {
		start(&other, make_thread, each);
		make_thread(NULL);
		CHECK(pthread_join(other, NULL));
	}
	CHECK(cuda.context_create(&context, 0, 0));
}

/* Data from files between that of a socket and its work. */
static void files(int count)
{
	struct server own = { 0 };
	char bytes[16] = { 0 };
	int zero = open("/dev/zero", O_RDONLY);

	set_up(&own);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, feed));
	for (int number = 0; number < count; number++) {
		if (write(feed[0], bytes, 1) != 1 || read(feed[1], bytes, 1) != 1)
			fail("a socket", number);
		for (int at = 0; at < 200; at++)
			if (read(zero, bytes, 16) != 16)
				fail("a file", at);
		launch(&own, NULL, 0);
		CHECK(cuda.stream_wait(NULL));
	}
	tear_down(&own);
}

/* Copies that stall the context, each behind one whose data took 0.3 s. */
static void slow(int count)
{
	static unsigned int pageable[WORDS];
	struct server own = { 0 };
	long long longest = 0;

	set_up(&own);
	for (int number = 0; number < count; number++) {
		const long long begin = now();

		CHECK(cuda.in(own.x, pageable, 4 * WORDS));
		if (now() - begin > longest)
			longest = now() - begin;
		for (int part = 0; part < 150; part++)
			prepare();
		launch(&own, NULL, 0);
		CHECK(cuda.stream_wait(NULL));
	}
	printf("longest %lld us\n", longest / 1000);
	tear_down(&own);
}

/* The works of this file: true if it was one. */
static int meeting(const char *work, int number, int each)
{
#ifndef LINKED
	if (!strcmp(work, "late"))
		late(number);
	else
#endif
	if (!strcmp(work, "defaults"))
		defaults(number);
	else if (!strcmp(work, "lanes"))
		lanes(number);
	else if (!strcmp(work, "makers"))
		makers(number, each);
	else if (!strcmp(work, "files"))
		files(number);
	else if (!strcmp(work, "slow"))
		slow(number);
	else
		return 0;
	return 1;
}

#endif
