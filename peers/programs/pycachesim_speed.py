"""How fast pycachesim is: one level of 32 KB, lines of 64 bytes, 8 ways, LRU, over a file of addresses (8 bytes each, little-endian).

usage: pycachesim_speed.py FILE
Standard output: how many accesses, the seconds that its C loop took, and misses. All accesses are loads of 8 bytes.
"""
import array
import sys
import time
from cachesim import Cache, CacheSimulator, MainMemory

addresses = array.array("Q", open(sys.argv[1], "rb").read()).tolist()
level = Cache("L1", 64, 8, 64, "LRU")
memory = MainMemory()
memory.load_to(level)
memory.store_from(level)
simulator = CacheSimulator(level, memory)
begin = time.process_time()
simulator.load(addresses, length=8)
took = time.process_time() - begin
print(len(addresses), took, level.stats()["MISS_count"])
