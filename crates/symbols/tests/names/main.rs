//! Names of programs that are built for the purpose, in every way that compilers and linkers offer.
mod build;
mod damage;
mod files;
mod functions;
mod locals;
mod references;
mod variables;
