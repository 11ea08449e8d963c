//! Our caches against those of other simulators, to the last unit where the models agree.
mod cachegrind;
mod caches;
mod pycachesim;
