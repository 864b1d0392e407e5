/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct qt_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    qt_job *head;
    qt_job *tail;
    uint32_t queued;
    uint32_t queue_max;
    uint32_t idle;
    uint32_t threads;
    uint32_t threads_max;
    bool ending;
    pthread_t *ids;
};

int qt_pool_create(uint32_t threads_max, uint32_t queue_max, qt_pool **out) {
    qt_pool *pool = calloc(1, sizeof *pool);
    pthread_t *ids = calloc(threads_max, sizeof *ids);
    if (pool == NULL || ids == NULL) {
        free(pool);
        free(ids);
        return -ENOMEM;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pool->threads_max = threads_max;
    pool->queue_max = queue_max;
    pool->ids = ids;
    *out = pool;
    return 0;
}

static qt_job *take(qt_pool *pool) {
    qt_job *job = pool->head;
    pool->head = job->next;
    if (pool->head == NULL)
        pool->tail = NULL;
    pool->queued--;
    return job;
}

static void *thread_main(void *argument) {
    qt_pool *pool = argument;
    pthread_setname_np(pthread_self(), "quoit-pool");
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->head == NULL && !pool->ending) {
            pool->idle++;
            pthread_cond_wait(&pool->work, &pool->lock);
            pool->idle--;
        }
        if (pool->head == NULL)
            break;
        qt_job *job = take(pool);
        job->state = pool->ending ? QT_JOB_CANCELLED : QT_JOB_RUNNING;
        pthread_mutex_unlock(&pool->lock);
        if (job->state == QT_JOB_RUNNING) {
            job->run(job);
            job->state = QT_JOB_FINISHED;
        }
        job->finished(job);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Signals are the program's: none is handled on a thread of ours. */
static int start_thread(qt_pool *pool) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&pool->ids[pool->threads], NULL, thread_main, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pool->threads++;
    return -error;
}

int qt_pool_submit(qt_pool *pool, qt_job *job) {
    int error = 0;
    pthread_mutex_lock(&pool->lock);
    if (pool->queued >= pool->queue_max || pool->ending)
        error = -EAGAIN;
    else if (pool->queued >= pool->idle && pool->threads < pool->threads_max && start_thread(pool) != 0 &&
             pool->threads == 0)
        error = -EAGAIN; /* no thread at all: nobody would ever run it */
    if (error == 0) {
        job->next = NULL;
        job->state = QT_JOB_QUEUED;
        if (pool->tail != NULL)
            pool->tail->next = job;
        else
            pool->head = job;
        pool->tail = job;
        pool->queued++;
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->lock);
    return error;
}

bool qt_pool_cancel(qt_pool *pool, qt_job *job) {
    bool found = false;
    pthread_mutex_lock(&pool->lock);
    qt_job *before = NULL;
    for (qt_job **at = &pool->head; *at != NULL; at = &(*at)->next) {
        if (*at == job) {
            *at = job->next;
            if (pool->tail == job)
                pool->tail = before;
            pool->queued--;
            job->state = QT_JOB_CANCELLED;
            found = true;
            break;
        }
        before = *at;
    }
    pthread_mutex_unlock(&pool->lock);
    return found;
}

void qt_pool_destroy(qt_pool *pool, bool forked) {
    if (!forked) {
        pthread_mutex_lock(&pool->lock);
        pool->ending = true;
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->lock);
        for (uint32_t i = 0; i < pool->threads; i++)
            pthread_join(pool->ids[i], NULL);
        pthread_cond_destroy(&pool->work);
        pthread_mutex_destroy(&pool->lock);
    }
    free(pool->ids);
    free(pool);
}
