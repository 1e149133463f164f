/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that knows nothing of zernel: it copies, launches and waits.
 *
 * usage: program WAY WORK [NUMBER [KIND]]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda.h"

/* Words of memory of a server. */
#define WORDS 1024

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* The things that a thread serves with, in its current context. */
struct server {
	handle module, mac, saxpy, spin, stream, event, exec;
	address x, y;
	unsigned int *host;
};

static void set_up(struct server *own)
{
	CHECK(cuda.module_load(&own->module, kernels));
	CHECK(cuda.function(&own->mac, own->module, "zernel_mac"));
	CHECK(cuda.function(&own->saxpy, own->module, "saxpy"));
	CHECK(cuda.function(&own->spin, own->module, "zernel_spin"));
	CHECK(cuda.stream_create(&own->stream, 1));
	CHECK(cuda.event_create(&own->event, 2));
	CHECK(cuda.alloc(&own->x, 4 * WORDS));
	CHECK(cuda.alloc(&own->y, 4 * WORDS));
	CHECK(cuda.alloc_host((void **)&own->host, 4 * WORDS, 0));
}

static void tear_down(struct server *own)
{
	if (own->exec)
		CHECK(cuda.exec_destroy(own->exec));
	CHECK(cuda.free_host(own->host));
	CHECK(cuda.free(own->x));
	CHECK(cuda.free(own->y));
	CHECK(cuda.event_destroy(own->event));
	CHECK(cuda.stream_destroy(own->stream));
	CHECK(cuda.module_unload(own->module));
}

/* Adds a half of x to y in a stream, by one of the functions that launch. */
static void launch(struct server *own, handle stream, int how)
{
	unsigned int n = WORDS;
	float half = 0.5f;
	void *arguments[] = { &n, &half, &own->x, &own->y };
	struct launch config = { { 4, 1, 1 }, { 256, 1, 1 }, 0, stream, NULL, 0 };
	handle graph;

	switch (how) {
	case 0:
		CHECK(cuda.launch(own->saxpy, 4, 1, 1, 256, 1, 1, 0, stream, arguments, NULL));
		return;
	case 1:
		CHECK(cuda.launch_ex(&config, own->saxpy, arguments, NULL));
		return;
	case 2:
		CHECK(cuda.launch_together(own->saxpy, 4, 1, 1, 256, 1, 1, 0, stream, arguments));
		return;
	}
	if (!own->exec) {
		CHECK(cuda.capture_begin(own->stream, 0));
		launch(own, own->stream, 0);
		CHECK(cuda.capture_end(own->stream, &graph));
		CHECK(cuda.instantiate(&own->exec, graph, 0));
		CHECK(cuda.graph_destroy(graph));
	}
	CHECK(cuda.graph_launch(own->exec, stream));
}

/* The data of a request takes a while. */
static void prepare(void)
{
	const long long end = now() + 2000000;

	while (now() < end)
		;
}

static void set_rows(struct rows *rows, struct server *own)
{
	memset(rows, 0, sizeof(*rows));
	rows->from_kind = 1;
	rows->from_host = own->host;
	rows->from_pitch = 4 * WORDS / 4;
	rows->to_kind = 2;
	rows->to_device = own->x;
	rows->to_pitch = 4 * WORDS / 4;
	rows->width = 4 * WORDS / 4;
	rows->height = 4;
}

/* Serves once, in a way that depends on `kind`, and looks at the result. */
static void serve(struct server *own, int kind, int number)
{
	const float expected = 0.5f * number + 1.0f;
	handle stream = kind % 2 ? own->stream : NULL;
	struct rows rows;
	float *values = (float *)own->host, one = 1.0f;
	unsigned int bits;
	int status;

	for (int at = 0; at < WORDS; at++)
		values[at] = number;
	memcpy(&bits, &one, sizeof(bits));
	CHECK(cuda.set_later(own->y, bits, WORDS, stream));
	switch (kind) {
	case 0:
		CHECK(cuda.in(own->x, own->host, 4 * WORDS));
		break;
	case 1:
		CHECK(cuda.in_later(own->x, own->host, 4 * WORDS, stream));
		break;
	case 2:
		CHECK(cuda.any_later(own->x, (address)own->host, 4 * WORDS, stream));
		break;
	case 3:
		set_rows(&rows, own);
		CHECK(cuda.rows_later(&rows, stream));
		break;
	}
	prepare();
	launch(own, stream, kind);
	switch (kind) {
	case 0:
		CHECK(cuda.out(own->host, own->y, 4 * WORDS));
		break;
	case 1:
		CHECK(cuda.out_later(own->host, own->y, 4 * WORDS, stream));
		CHECK(cuda.event_record(own->event, stream));
		CHECK(cuda.event_wait(own->event));
		break;
	case 2:
		CHECK(cuda.any((address)own->host, own->y, 4 * WORDS));
		break;
	case 3:
		CHECK(cuda.out_later(own->host, own->y, 4 * WORDS, stream));
		while ((status = cuda.stream_query(stream)) == 600)
			;
		CHECK(status);
		break;
	}
	for (int at = 0; at < WORDS; at++)
		if (values[at] != expected)
			fail("a result", number);
}

static void serve_all(int count, int kind)
{
	struct server own = { 0 };

	set_up(&own);
	for (int number = 0; number < count; number++)
		serve(&own, kind < 0 ? number % 4 : kind, number);
	tear_down(&own);
}

static handle context;
static int many;

static void *serve_thread(void *argument)
{
	CHECK(cuda.context_set(context));
	/* While one captures, others may not use the default stream: none does. */
	serve_all(many, (int)(long)argument % 3);
	return NULL;
}

static void threads(int count, int each)
{
	pthread_t all[64];

	many = each;
	for (long at = 0; at < count; at++)
		CHECK(pthread_create(&all[at], NULL, serve_thread, (void *)at));
	for (int at = 0; at < count; at++)
		CHECK(pthread_join(all[at], NULL));
}

/* One thread launches, another one waits: by a stream, an event or the context. */
static struct server shared;
static pthread_barrier_t barrier;

static void *wait_thread(void *argument)
{
	(void)argument;
	CHECK(cuda.context_set(context));
	for (int number = 0; number < many; number++) {
		pthread_barrier_wait(&barrier);
		switch (number % 3) {
		case 0:
			CHECK(cuda.stream_wait(shared.stream));
			break;
		case 1:
			CHECK(cuda.event_wait(shared.event));
			break;
		case 2:
			CHECK(cuda.context_wait());
			break;
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void two(int count)
{
	pthread_t other;

	many = count;
	set_up(&shared);
	CHECK(pthread_barrier_init(&barrier, NULL, 2));
	CHECK(pthread_create(&other, NULL, wait_thread, NULL));
	for (int number = 0; number < count; number++) {
		CHECK(cuda.in_later(shared.x, shared.host, 4 * WORDS, shared.stream));
		prepare();
		launch(&shared, shared.stream, number % 3);
		CHECK(cuda.event_record(shared.event, shared.stream));
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	CHECK(pthread_join(other, NULL));
	tear_down(&shared);
}

/* Data comes from a socket, for this thread or through another one. */
static int feed[2], inner[2], answers[2];

static void *feed_thread(void *argument)
{
	char byte = 1;

	(void)argument;
	/* One after the other: the next one when there is an answer. */
	for (int number = 0; number < many; number++) {
		if (write(feed[0], &byte, 1) != 1 || read(answers[0], &byte, 1) != 1)
			fail("a socket", number);
	}
	return NULL;
}

static void *read_thread(void *argument)
{
	char byte;

	(void)argument;
	for (int number = 0; number < many; number++)
		if (recv(feed[1], &byte, 1, 0) != 1 || write(inner[1], &byte, 1) != 1)
			fail("a socket", number);
	return NULL;
}

static void sockets(int count, int is_apart, int has_no_copy)
{
	struct server own = { 0 };
	pthread_t feeder, reader;
	char byte;

	many = count;
	set_up(&own);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, feed));
	CHECK(pipe(inner));
	CHECK(pipe(answers));
	CHECK(pthread_create(&feeder, NULL, feed_thread, NULL));
	if (is_apart)
		CHECK(pthread_create(&reader, NULL, read_thread, NULL));
	for (int number = 0; number < count; number++) {
		if (read(is_apart ? inner[0] : feed[1], &byte, 1) != 1)
			fail("a socket", number);
		prepare();
		if (!has_no_copy)
			CHECK(cuda.in(own.x, own.host, 4 * WORDS));
		launch(&own, NULL, number % 3);
		CHECK(cuda.stream_wait(NULL));
		if (write(answers[1], &byte, 1) != 1)
			fail("a socket", number);
	}
	CHECK(pthread_join(feeder, NULL));
	if (is_apart)
		CHECK(pthread_join(reader, NULL));
	tear_down(&own);
}

/* Calls that wait for the whole context do not wait for a request that has begun. */
static void stalls(int count)
{
	struct server own = { 0 };
	long long longest = 0;

	set_up(&own);
	for (int number = 0; number < count; number++) {
		address memory;
		long long start;

		CHECK(cuda.alloc(&memory, 4096));
		CHECK(cuda.in(own.x, own.host, 4 * WORDS));
		start = now();
		if (number % 2)
			CHECK(cuda.context_wait());
		CHECK(cuda.free(memory));
		if (now() - start > longest)
			longest = now() - start;
		launch(&own, NULL, 0);
		CHECK(cuda.stream_wait(NULL));
	}
	printf("longest %lld us\n", longest / 1000);
	tear_down(&own);
}

/* Copies without a launch. */
static void copies(int count)
{
	struct server own = { 0 };

	set_up(&own);
	for (int number = 0; number < count; number++) {
		CHECK(cuda.in(own.x, own.host, 4 * WORDS));
		CHECK(cuda.out(own.host, own.x, 4 * WORDS));
	}
	tear_down(&own);
}

/* A context on each device, made and destroyed, and the primary one, retained twice and reset. */
static void contexts(int count)
{
	handle both[2], primary, again, current;

	CHECK(cuda.context_destroy(context));
	for (int round = 0; round < 2; round++) {
		for (int at = 0; at < 2; at++)
			CHECK(cuda.context_create(&both[at], 0, at));
		for (int at = 0; at < 2; at++) {
			CHECK(cuda.context_set(both[at]));
			serve_all(count, -1);
		}
		CHECK(cuda.context_destroy(both[1]));
		CHECK(cuda.context_destroy(both[0]));
	}
	CHECK(cuda.context_set(NULL));
	for (int round = 0; round < 2; round++) {
		CHECK(cuda.primary_retain(&primary, 0));
		CHECK(cuda.primary_retain(&again, 0));
		CHECK(cuda.context_current(&current));
		if (again != primary || current)
			fail("the primary context", round);
		CHECK(cuda.context_set(primary));
		serve_all(count, -1);
		CHECK(cuda.primary_release(0));
		serve_all(count, -1);
		CHECK(cuda.context_set(NULL));
		CHECK(round ? cuda.primary_reset(0) : cuda.primary_release(0));
	}
	/* It ends with a context, as it began. */
	CHECK(cuda.context_create(&context, 0, 0));
}

/* In a child nothing works, and in its parent all goes on. */
static void forks(int count)
{
	struct server own = { 0 };
	int status;
	pid_t child;

	set_up(&own);
	serve(&own, 0, 1);
	CHECK(cuda.in(own.x, own.host, 4 * WORDS));
	child = fork();
	/* By exit(), which ends what a thread has. */
	if (!child)
		exit(cuda.in(own.x, own.host, 4) == 3 && cuda.context_wait() == 3 &&
				     cuda.stream_wait(NULL) == 3 && cuda.context_destroy(context) == 3 ?
			     0 :
			     1);
	CHECK(waitpid(child, &status, 0) != child || status);
	for (int number = 0; number < count; number++)
		serve(&own, number % 4, number);
	tear_down(&own);
}

#include "look_up.h"
#include "random.h"
#include "threads.h"
#include "timed.h"

int main(int count, char **arguments)
{
	const char *way = count > 1 ? arguments[1] : "", *work = count > 2 ? arguments[2] : "";
	const int number = count > 3 ? atoi(arguments[3]) : 100;
	const int kind = count > 4 ? atoi(arguments[4]) : -1;
	int status;
	pid_t child;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(work, "nothing")) {
		/* The test looks at it from outside. */
		printf("waiting\n");
		pause();
	}
#ifndef LINKED
	if (!strcmp(work, "look-up") || !strcmp(work, "look-up-all")) {
		work[7] ? look_up_all() : look_up();
		return 0;
	}
#endif
	reach(way);
	if (!strcmp(work, "child")) {
		/* A child that uses CUDA when its parent has not. */
		child = fork();
		if (child) {
			CHECK(waitpid(child, &status, 0) != child || status);
			return 0;
		}
	}
	if (!strcmp(work, "bare")) {
		bare();
		return 0;
	}
	CHECK(cuda.init(0));
	CHECK(cuda.context_create(&context, 0, 0));
	if (!strcmp(work, "serve") || !strcmp(work, "child") || !strcmp(work, "stay") ||
	    !strcmp(work, "exec"))
		serve_all(number, kind);
	else if (!strcmp(work, "threads"))
		threads(kind, number);
	else if (!strcmp(work, "two"))
		two(number);
	else if (!strcmp(work, "socket") || !strcmp(work, "sockets"))
		sockets(number, !strcmp(work, "sockets"), kind == 1);
	else if (!strcmp(work, "stalls"))
		stalls(number);
	else if (!strcmp(work, "copies"))
		copies(number);
	else if (!strcmp(work, "contexts"))
		contexts(number);
	else if (!strcmp(work, "forks"))
		forks(number);
	else if (!strcmp(work, "random"))
		random_calls(number, kind);
	else if (!strcmp(work, "bench"))
		bench(number);
	else if (!strcmp(work, "latency"))
		latency(number, kind);
	else if (!strcmp(work, "busy"))
		busy();
	else if (!meeting(work, number, kind))
		fail(work, 0);
	printf("served\n");
	if (!strcmp(work, "stay"))
		pause();
	if (!strcmp(work, "exec")) {
		arguments[2] = "serve";
		execv("/proc/self/exe", arguments);
		fail("exec", errno);
	}
	CHECK(cuda.context_destroy(context));
	return 0;
}
