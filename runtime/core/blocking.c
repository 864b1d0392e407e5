/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "blocking.h"
#include "object.h"

#include <errno.h>
#include <stdlib.h>

static void feed_pool(qt_worker *w);

/* Last touch of the worker from a pool thread is inside the lock, so that its end can wait for it. */
static void come_back(qt_work *work) {
    qt_worker *w = work->worker;
    pthread_mutex_lock(&w->works_lock);
    qt_mailbox_put(&w->mailbox, &work->letter);
    qt_wake(w);
    w->works_out--;
    pthread_cond_signal(&w->works_home);
    pthread_mutex_unlock(&w->works_lock);
}

static void run_job(qt_job *job) {
    qt_work *work = qt_container(job, qt_work, job);
    work->run(work);
    work->ran = true;
}

static void job_finished(qt_job *job) {
    come_back(qt_container(job, qt_work, job));
}

static void open_letter(void *worker, qt_letter *letter) {
    qt_work *work = qt_container(letter, qt_work, letter);
    qt_list_remove(&work->link);
    work->done(work, work->ran);
    free(work);
    feed_pool(worker);
}

static void discard_letter(void *worker, qt_letter *letter) {
    open_letter(worker, letter);
}

static int give_to_pool(qt_worker *w, qt_work *work) {
    pthread_mutex_lock(&w->works_lock);
    w->works_out++;
    pthread_mutex_unlock(&w->works_lock);
    int error = qt_pool_submit(w->runtime->pool, &work->job);
    if (error) {
        pthread_mutex_lock(&w->works_lock);
        w->works_out--;
        pthread_mutex_unlock(&w->works_lock);
    }
    return error;
}

int qt_work_submit(qt_worker *w, qt_work *work, bool bounded) {
    work->worker = w;
    work->job.run = run_job;
    work->job.finished = job_finished;
    work->letter.open = open_letter;
    work->letter.discard = discard_letter;
    qt_list_init(&work->link);
    int error = qt_list_empty(&w->works_waiting) || bounded ? give_to_pool(w, work) : -EAGAIN;
    if (error && bounded)
        return error;
    work->waiting = error != 0;
    qt_list_append(work->waiting ? &w->works_waiting : &w->works, &work->link);
    return 0;
}

static void feed_pool(qt_worker *w) {
    while (!qt_list_empty(&w->works_waiting)) {
        qt_work *work = qt_container(w->works_waiting.next, qt_work, link);
        if (give_to_pool(w, work) != 0)
            return;
        work->waiting = false;
        qt_list_remove(&work->link);
        qt_list_append(&w->works, &work->link);
    }
}

bool qt_work_cancel(qt_worker *w, qt_work *work) {
    if (work->waiting) {
        work->waiting = false;
        qt_list_remove(&work->link);
        qt_list_append(&w->works, &work->link);
        qt_mailbox_put(&w->mailbox, &work->letter);
        return true;
    }
    if (!qt_pool_cancel(w->runtime->pool, &work->job))
        return false;
    come_back(work);
    return true;
}

void qt_works_abandon(qt_worker *w, bool forked) {
    w->ending = true;
    if (forked)
        return;
    while (!qt_list_empty(&w->works_waiting))
        qt_work_cancel(w, qt_container(w->works_waiting.next, qt_work, link));
    for (qt_link *at = w->works.next; at != &w->works; at = at->next) {
        qt_work *work = qt_container(at, qt_work, link);
        if (qt_pool_cancel(w->runtime->pool, &work->job))
            come_back(work);
    }
    pthread_mutex_lock(&w->works_lock);
    while (w->works_out > 0)
        pthread_cond_wait(&w->works_home, &w->works_lock);
    pthread_mutex_unlock(&w->works_lock);
}

/* File requests of the epoll driver. */

static void run_request(qt_work *work) {
    work->result = qt_req_execute(work->subject);
}

static void request_done(qt_work *work, bool ran) {
    qt_req *req = work->subject;
    qt_completion c = {.res = ran ? (int32_t)work->result : -ECANCELED};
    req->state = QT_REQ_IDLE;
    req->done(req, &c);
}

int qt_run_blocking(void *worker, qt_req *req) {
    qt_work *work = calloc(1, sizeof *work);
    if (work == NULL)
        return -ENOMEM;
    if (((qt_worker *)worker)->ending) {
        free(work);
        return -ECANCELED;
    }
    work->run = run_request;
    work->done = request_done;
    work->subject = req;
    req->scratch = (int64_t)(intptr_t)work;
    return qt_work_submit(worker, work, false);
}

bool qt_cancel_blocking(void *worker, qt_req *req) {
    return qt_work_cancel(worker, (qt_work *)(intptr_t)req->scratch);
}
