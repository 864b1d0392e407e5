/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The blocking pool: lazy threads, a bounded queue, taking back, and its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/pool.h"
#include "sys/clock.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 2000

/* A gate at which jobs wait until the test opens it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned waiting;
static bool gate_open;

static unsigned ran;
static unsigned finished;
static unsigned cancelled;

static void count(unsigned *counter) {
    pthread_mutex_lock(&lock);
    ++*counter;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static unsigned count_of(unsigned *counter) {
    pthread_mutex_lock(&lock);
    unsigned value = *counter;
    pthread_mutex_unlock(&lock);
    return value;
}

static void await(unsigned *counter, unsigned value) {
    pthread_mutex_lock(&lock);
    while (*counter < value)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static int reset(void **state) {
    (void)state;
    waiting = ran = finished = cancelled = 0;
    gate_open = false;
    return 0;
}

static void open_gate(void) {
    pthread_mutex_lock(&lock);
    gate_open = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void run_through_gate(qt_job *job) {
    bool running = job->state == QT_JOB_RUNNING;
    pthread_mutex_lock(&lock);
    waiting++;
    pthread_cond_broadcast(&changed);
    while (!gate_open)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (running)
        count(&ran);
}

static void run_at_once(qt_job *job) {
    (void)job;
    count(&ran);
}

static void note_end(qt_job *job) {
    if (job->state == QT_JOB_CANCELLED)
        count(&cancelled);
    else if (job->state == QT_JOB_FINISHED)
        count(&finished);
}

static qt_job job_of(void (*run)(qt_job *)) {
    return (qt_job){.run = run, .finished = note_end};
}

static unsigned threads_named(const char *name) {
    DIR *directory = opendir("/proc/self/task");
    unsigned found = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[300];
        char comm[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(comm, sizeof comm, file) != NULL && strncmp(comm, name, strlen(name)) == 0)
            found++;
        fclose(file);
    }
    closedir(directory);
    return found;
}

static void all_jobs_run(void **state) {
    (void)state;
    qt_pool *pool;
    static qt_job jobs[MANY];
    assert_int_equal(qt_pool_create(4, MANY, &pool), 0);
    for (int i = 0; i < MANY; i++) {
        jobs[i] = job_of(run_at_once);
        assert_int_equal(qt_pool_submit(pool, &jobs[i]), 0);
    }
    await(&finished, MANY);
    qt_pool_destroy(pool, false);
    assert_int_equal(ran, MANY);
    assert_int_equal(finished, MANY);
    assert_int_equal(cancelled, 0);
}

static void threads_start_when_needed(void **state) {
    (void)state;
    qt_pool *pool;
    qt_job jobs[6];
    assert_int_equal(qt_pool_create(3, 10, &pool), 0);
    assert_int_equal(threads_named("quoit-pool"), 0);
    for (unsigned i = 0; i < 6; i++) {
        jobs[i] = job_of(run_through_gate);
        assert_int_equal(qt_pool_submit(pool, &jobs[i]), 0);
        await(&waiting, i < 3 ? i + 1 : 3);
        assert_int_equal(threads_named("quoit-pool"), i < 3 ? i + 1 : 3);
    }
    open_gate();
    await(&finished, 6);
    jobs[0] = job_of(run_at_once);
    assert_int_equal(qt_pool_submit(pool, &jobs[0]), 0); /* one of the idle takes it */
    await(&finished, 7);
    assert_int_equal(threads_named("quoit-pool"), 3);
    qt_pool_destroy(pool, false);
    for (int64_t end = qt_now_ns() + 10000000000; threads_named("quoit-pool") > 0;)
        assert_true(qt_now_ns() < end); /* a joined thread leaves /proc a little later */
}

static sigset_t blocked_signals;

static void read_mask(qt_job *job) {
    (void)job;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked_signals);
}

static void signals_are_blocked(void **state) {
    (void)state;
    qt_pool *pool;
    qt_job job = job_of(read_mask);
    sigset_t ours;
    assert_int_equal(qt_pool_create(1, 1, &pool), 0);
    assert_int_equal(qt_pool_submit(pool, &job), 0);
    await(&finished, 1);
    qt_pool_destroy(pool, false);
    for (int *number = (int[]){SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGUSR1, SIGRTMIN, 0}; *number; number++)
        assert_int_equal(sigismember(&blocked_signals, *number), 1);
    pthread_sigmask(SIG_BLOCK, NULL, &ours);
    assert_int_equal(sigismember(&ours, SIGINT), 0); /* the caller's are as they were */
}

static void a_full_queue_refuses(void **state) {
    (void)state;
    qt_pool *pool;
    qt_job first = job_of(run_through_gate);
    qt_job queued[3] = {job_of(run_at_once), job_of(run_at_once), job_of(run_at_once)};
    assert_int_equal(qt_pool_create(1, 2, &pool), 0);
    assert_int_equal(qt_pool_submit(pool, &first), 0);
    await(&waiting, 1);
    assert_int_equal(qt_pool_submit(pool, &queued[0]), 0);
    assert_int_equal(qt_pool_submit(pool, &queued[1]), 0);
    assert_int_equal(qt_pool_submit(pool, &queued[2]), -EAGAIN);
    assert_true(qt_pool_cancel(pool, &queued[0]));
    assert_int_equal(qt_pool_submit(pool, &queued[2]), 0);
    open_gate();
    await(&finished, 3);
    qt_pool_destroy(pool, false);
    assert_int_equal(ran, 3);
}

static void only_what_has_not_begun_is_taken_back(void **state) {
    (void)state;
    qt_pool *pool;
    qt_job first = job_of(run_through_gate);
    qt_job queued[4];
    assert_int_equal(qt_pool_create(1, 10, &pool), 0);
    assert_int_equal(qt_pool_submit(pool, &first), 0);
    await(&waiting, 1);
    for (int i = 0; i < 4; i++) {
        queued[i] = job_of(run_at_once);
        assert_int_equal(qt_pool_submit(pool, &queued[i]), 0);
    }
    assert_false(qt_pool_cancel(pool, &first));
    assert_true(qt_pool_cancel(pool, &queued[3])); /* the last, */
    assert_true(qt_pool_cancel(pool, &queued[0])); /* the first, */
    assert_true(qt_pool_cancel(pool, &queued[1]));
    assert_false(qt_pool_cancel(pool, &queued[1]));
    assert_int_equal(queued[1].state, QT_JOB_CANCELLED);
    assert_int_equal(qt_pool_submit(pool, &queued[1]), 0); /* and the queue is whole */
    open_gate();
    await(&finished, 3);
    assert_false(qt_pool_cancel(pool, &queued[2]));
    qt_pool_destroy(pool, false);
    assert_int_equal(ran, 3);
    assert_int_equal(cancelled, 0); /* finished was not called for what was taken back */
}

static void *destroy_pool(void *pool) {
    qt_pool_destroy(pool, false);
    return NULL;
}

static void the_end_waits_for_what_runs(void **state) {
    (void)state;
    qt_pool *pool;
    qt_job running[2] = {job_of(run_through_gate), job_of(run_through_gate)};
    qt_job queued[5];
    pthread_t thread;
    assert_int_equal(qt_pool_create(2, 10, &pool), 0);
    assert_int_equal(qt_pool_submit(pool, &running[0]), 0);
    assert_int_equal(qt_pool_submit(pool, &running[1]), 0);
    await(&waiting, 2);
    for (int i = 0; i < 5; i++) {
        queued[i] = job_of(run_at_once);
        assert_int_equal(qt_pool_submit(pool, &queued[i]), 0);
    }
    assert_int_equal(pthread_create(&thread, NULL, destroy_pool, pool), 0);
    qt_job late = job_of(run_at_once);
    while (qt_pool_submit(pool, &late) == 0) /* refused as soon as the end has begun */
        assert_true(qt_pool_cancel(pool, &late));
    assert_int_equal(count_of(&finished), 0);
    open_gate();
    pthread_join(thread, NULL);
    assert_int_equal(finished, 2);
    assert_int_equal(cancelled, 5);
    assert_int_equal(ran, 2);
}

struct submitter {
    qt_pool *pool;
    qt_job jobs[500];
    unsigned taken_back;
};

static void *submit_and_cancel(void *argument) {
    struct submitter *s = argument;
    for (int i = 0; i < 500; i++) {
        s->jobs[i] = job_of(run_at_once);
        while (qt_pool_submit(s->pool, &s->jobs[i]) == -EAGAIN)
            sched_yield();
        if (i % 3 == 0)
            s->taken_back += qt_pool_cancel(s->pool, &s->jobs[i]);
    }
    return NULL;
}

static void many_threads_submit_and_cancel(void **state) {
    (void)state;
    qt_pool *pool;
    pthread_t threads[4];
    static struct submitter submitters[4];
    unsigned taken_back = 0;
    assert_int_equal(qt_pool_create(3, 16, &pool), 0);
    for (int i = 0; i < 4; i++) {
        submitters[i] = (struct submitter){.pool = pool};
        assert_int_equal(pthread_create(&threads[i], NULL, submit_and_cancel, &submitters[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        taken_back += submitters[i].taken_back;
    }
    qt_pool_destroy(pool, false);
    assert_int_equal(ran, finished);
    assert_int_equal(finished + cancelled + taken_back, 2000); /* each ends once */
}

static void destroyed_in_a_child(void **state) {
    (void)state;
    qt_pool *pool;
    qt_job job = job_of(run_through_gate);
    qt_job short_job = job_of(run_at_once);
    int status;
    assert_int_equal(qt_pool_create(2, 4, &pool), 0);
    assert_int_equal(qt_pool_submit(pool, &job), 0);
    await(&waiting, 1);
    assert_int_equal(qt_pool_submit(pool, &short_job), 0);
    await(&finished, 1); /* one thread runs, the other is idle */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        qt_pool_destroy(pool, true); /* its threads are not here: nothing to wait for */
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    open_gate();
    qt_pool_destroy(pool, false);
    assert_int_equal(finished, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_jobs_run, reset),
        cmocka_unit_test_setup(threads_start_when_needed, reset),
        cmocka_unit_test_setup(signals_are_blocked, reset),
        cmocka_unit_test_setup(a_full_queue_refuses, reset),
        cmocka_unit_test_setup(only_what_has_not_begun_is_taken_back, reset),
        cmocka_unit_test_setup(the_end_waits_for_what_runs, reset),
        cmocka_unit_test_setup(many_threads_submit_and_cancel, reset),
        cmocka_unit_test_setup(destroyed_in_a_child, reset),
    };
    return cmocka_run_group_tests_name("blocking pool", tests, NULL, NULL);
}
