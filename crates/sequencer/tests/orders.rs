//! The sequencer in every order of its threads, under loom: nobody waits for ever, and posts come
//! in order.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p memtrail-sequencer --target-dir target/loom`
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use memtrail_sequencer::Sequencer;

enum Job {
    Fold(u64),
    Encode(u64),
}

type Shared = Arc<Sequencer<Job, Post, u64, &'static str>>;

#[derive(Debug, PartialEq)]
enum Post {
    Folded(u64),
    Finish,
}

/// All orders with at most this many preemptions: where a thread waits, others go on in any order
/// besides.
fn every_order(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

/// As the workers of a recording: folds are posted, encodings delivered.
fn worker(shared: &Shared) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || {
        while let Some(job) = shared.next_job() {
            match job {
                Job::Fold(ticket) => {
                    shared.finished(1);
                    shared.post(ticket, Post::Folded(ticket));
                }
                Job::Encode(ticket) => {
                    shared.deliver(ticket, ticket);
                    shared.finished(1);
                }
            }
        }
    })
}

/// As the writer of a recording: makes an urgent job of each post, and ends when all came back.
fn consumer(shared: &Shared) -> thread::JoinHandle<(Vec<Post>, usize)> {
    let shared = shared.clone();
    thread::spawn(move || {
        let (mut next, mut posts, mut asked, mut came) = (0, Vec::new(), 0, 0);
        while posts.last() != Some(&Post::Finish) || came < asked {
            let Some(arrived) = shared.wait(&mut next) else { break };
            came += arrived.delivered.len();
            for post in arrived.posts {
                if let Post::Folded(ticket) = post {
                    shared.submit_urgent(Job::Encode(ticket), 1);
                    asked += 1;
                }
                posts.push(post);
            }
        }
        (posts, came)
    })
}

fn run(workers: usize, jobs: u64, limit: usize) {
    let shared = Shared::default();
    let workers: Vec<_> = (0..workers).map(|_| worker(&shared)).collect();
    let consumer = consumer(&shared);
    for ticket in 0..jobs {
        shared.submit(Job::Fold(ticket), 1, limit);
    }
    shared.post(jobs, Post::Finish);
    let (posts, came) = consumer.join().unwrap();
    shared.end();
    workers.into_iter().for_each(|w| w.join().unwrap());
    let expected = (0..jobs).map(Post::Folded).chain([Post::Finish]);
    assert_eq!(posts, expected.collect::<Vec<_>>());
    assert_eq!(came as u64, jobs);
}

#[test]
fn posts_come_in_order_and_all_threads_end() {
    every_order(2, || run(1, 2, 1));
}

#[test]
fn two_workers_may_overtake_each_other() {
    every_order(1, || run(2, 2, 2));
}

#[test]
fn a_failure_frees_the_submitter() {
    every_order(3, || {
        let shared = Shared::default();
        let failing = shared.clone();
        let failing = thread::spawn(move || failing.fail("no space"));
        // Nobody works: without the failure the second would wait for ever.
        shared.submit(Job::Fold(0), 1, 1);
        shared.submit(Job::Fold(1), 1, 1);
        failing.join().unwrap();
        assert_eq!(shared.check(), Err(Some("no space")));
        assert_eq!(shared.check(), Err(None));
    });
}

#[test]
fn a_lost_thread_frees_the_consumer_and_the_submitter() {
    every_order(3, || {
        let shared = Shared::default();
        let consumer = consumer(&shared);
        let lost = shared.clone();
        let lost = thread::spawn(move || {
            lost.next_job();
            lost.break_off("lost");
        });
        shared.submit(Job::Fold(0), 1, 1);
        shared.submit(Job::Fold(1), 1, 1);
        shared.post(2, Post::Finish);
        assert_eq!(consumer.join().unwrap(), (Vec::new(), 0));
        lost.join().unwrap();
    });
}
