//! A sweep on several cores.
//!
//! Lists do not know of each other: each worker has some of them, and all the touches that matter
//! go to every worker, in order. So the counts are the same for any number of workers. The front
//! runs in the caller, which starts the workers when it has something for them: they have the
//! signal mask of the thread that brings accesses, not of the one that made the sweep.
use super::forest::Forest;
use super::front::Batch;
use super::plan::Node;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Batches that go in one parcel, and parcels that may wait for a worker.
const PARCEL: usize = 16;
const WAITING: usize = 8;

/// Batches, each with the cache it is for.
type Parcel = Arc<Vec<(usize, Batch)>>;

/// A configuration's number and its misses: (reads, writes).
type Misses = (usize, (u64, u64));

enum Message {
    Touches(Parcel),
    Report(Sender<Vec<Misses>>),
}

pub struct Workers {
    parcel: Vec<(usize, Batch)>,
    /// The lists of those that are not started.
    shares: Vec<Vec<Node>>,
    shortest: u32,
    workers: Vec<(SyncSender<Message>, JoinHandle<()>)>,
}

/// The lists of each cache, made when they are needed.
pub struct Caches {
    nodes: Vec<Node>,
    shortest: u32,
    caches: Vec<Option<Forest>>,
}

impl Caches {
    pub fn new(nodes: Vec<Node>, shortest: u32) -> Caches {
        Caches {
            nodes,
            shortest,
            caches: Vec::new(),
        }
    }

    pub fn take(&mut self, cache: usize, batch: &Batch) {
        if self.caches.len() <= cache {
            self.caches.resize_with(cache + 1, || None);
        }
        let forest = self.caches[cache].get_or_insert_with(|| Forest::new(&self.nodes, self.shortest));
        forest.take(batch);
    }

    pub fn each_result(&mut self, see: &mut dyn FnMut(usize, (u64, u64))) {
        for forest in self.caches.iter_mut().flatten() {
            forest.each_result(see);
        }
    }
}

fn work(mut caches: Caches, messages: Receiver<Message>) {
    for message in messages {
        match message {
            Message::Touches(parcel) => {
                for (cache, batch) in parcel.iter() {
                    caches.take(*cache, batch);
                }
            }
            Message::Report(to) => {
                let mut misses = Vec::new();
                caches.each_result(&mut |config, counts| misses.push((config, counts)));
                // If nobody waits for it any more, that is no concern of ours.
                let _ = to.send(misses);
            }
        }
    }
}

impl Workers {
    pub fn new(shares: Vec<Vec<Node>>, shortest: u32) -> Workers {
        Workers {
            parcel: Vec::new(),
            shares,
            shortest,
            workers: Vec::new(),
        }
    }

    fn start(&mut self) {
        let shortest = self.shortest;
        let start = |nodes| {
            let (to, messages) = sync_channel(WAITING);
            (
                to,
                std::thread::spawn(move || work(Caches::new(nodes, shortest), messages)),
            )
        };
        self.workers.extend(self.shares.drain(..).map(start));
    }

    pub fn take(&mut self, cache: usize, batch: &mut Batch) {
        self.parcel.push((cache, std::mem::replace(batch, Batch::new())));
        if self.parcel.len() == PARCEL {
            self.send();
        }
    }

    fn send(&mut self) {
        self.start();
        let parcel = Arc::new(std::mem::take(&mut self.parcel));
        for (worker, _) in &self.workers {
            worker
                .send(Message::Touches(parcel.clone()))
                .expect("a worker runs until it is told to end");
        }
    }

    pub fn each_result(&mut self, see: &mut dyn FnMut(usize, (u64, u64))) {
        self.send();
        let (to, reports) = channel();
        for (worker, _) in &self.workers {
            worker
                .send(Message::Report(to.clone()))
                .expect("a worker runs until it is told to end");
        }
        drop(to);
        reports
            .into_iter()
            .flatten()
            .for_each(|(config, misses)| see(config, misses));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (messages, worker) in self.workers.drain(..) {
            drop(messages);
            // A worker that panicked has said so.
            let _ = worker.join();
        }
    }
}
