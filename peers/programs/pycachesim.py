"""Drives pycachesim with a stream of accesses.

Standard input: a line `level SETS WAYS LINE POLICY BACK ALLOCATE` for each level, from the processor outwards (the last two are 0 or 1), or
`victim SETS WAYS LINE POLICY` for a victim cache of the level before; then a line `R|W ADDRESS SIZE` for each access.
Standard output: a line `LOAD STORE HIT MISS EVICT` for each level.

Loads and stores are handed over as lists: the backend cuts the address of a single one to 32 bits.
"""
import sys
from cachesim import Cache, CacheSimulator, MainMemory


def hierarchy(lines):
    memory, above, victim = MainMemory(), None, None
    levels = []
    for number, line in reversed(list(enumerate(lines))):
        kind, sets, ways, size, policy, *writes = line.split()
        name = f"{kind}{number}"
        if kind == "victim":
            cache = victim = Cache(name, int(sets), int(ways), int(size), policy)
        else:
            back, allocate = (word == "1" for word in writes)
            cache = Cache(name, int(sets), int(ways), int(size), policy, write_back=back, write_allocate=allocate,
                          load_from=above, store_to=above, victims_to=victim)
            if above is None:
                memory.load_to(cache)
                memory.store_from(cache)
            above, victim = cache, None
        levels.insert(0, cache)
    return CacheSimulator(above, memory), levels


def main():
    words = sys.stdin.read().splitlines()
    described = [line for line in words if line.startswith(("level", "victim"))]
    simulator, levels = hierarchy(described)
    for line in words[len(described):]:
        kind, address, size = line.split()
        (simulator.load if kind == "R" else simulator.store)([int(address)], length=int(size))
    for level in levels:
        print(*(level.stats()[f"{name}_count"] for name in ("LOAD", "STORE", "HIT", "MISS", "EVICT")))


main()
